//! The observer of a training run: forwards reports, writes samples at evaluations, and scores generated texts.

use super::options::Options;
use crate::data::{Captions, Data, Database, Texts, Tokenizers, sample};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::experiment::text_scores::{score_captions, score_translations};
use crate::generate::{Describer, Sampling, TextGenerator, Translator};
use crate::nn::neighbours::Retriever;
use crate::stop::StopFlag;
use crate::task::Objective;
use crate::train::job::{Observer, Report};
use crate::train::journal::Journal;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The observer of a run of an experiment.
pub(super) struct RunObserver {
    pub options: Options,
    pub experiment: Experiment,
    pub tokenizers: Tokenizers,
    pub context: usize,
    /// Retrieves the neighbours of texts, for a model that reads them.
    pub database: Option<Arc<Database>>,
    /// Source and reference texts of the validation split.
    pub texts: Option<Arc<Texts>>,
    /// Captions or transcripts of the validation split.
    pub captions: Option<Arc<Captions>>,
    pub samples: Option<Journal>,
    /// Signals that text generation should stop.
    pub stop: StopFlag,
    /// Messages about length limits that texts of the last evaluation reached.
    pub limits: Arc<Mutex<Vec<String>>>,
    /// The generated sample until its evaluation is complete.
    pub sample: Option<String>,
}

impl Observer<Objective> for RunObserver {
    fn report(&mut self, report: &Report) {
        self.options.follower.report(report);
    }

    fn saved(&mut self, step: u64) {
        self.options.follower.saved(step);
    }

    fn skipped(&mut self, step: u64, reason: &str) {
        self.options.follower.skipped(step, reason);
    }

    fn scores(&mut self, model: &Objective) -> Result<Option<BTreeMap<String, f64>>> {
        let config = &self.experiment.decode;
        let shown = |scores| match scores {
            Err(Error::Stopped(_)) if self.stop.is_raised() => Ok(None),
            scores => scores.map(Some),
        };
        if let Some(captions) = &self.captions {
            if captions.is_empty() || config.metrics.is_empty() {
                return Ok(Some(BTreeMap::new()));
            }
            let describer = Describer::new(model, &self.tokenizers, config, self.context)?;
            return match describer {
                Some(describer) => {
                    let describer = describer.with_stop(&self.stop);
                    let search = config.valid_search();
                    shown(score_captions(
                        &describer,
                        captions,
                        &search,
                        &config.metrics,
                    ))
                }
                None => Ok(Some(BTreeMap::new())),
            };
        }
        let translator = Translator::new(model, &self.tokenizers, config, self.context);
        let (Some(texts), Some(translator)) = (&self.texts, translator) else {
            return Ok(Some(BTreeMap::new()));
        };
        let translator = translator.with_stop(&self.stop);
        let items = config.valid_items.unwrap_or(usize::MAX);
        let (search, metrics) = (config.valid_search(), &config.metrics);
        let measured = score_translations(&translator, texts, items, &search, metrics);
        shown(measured.map(|(scores, told)| {
            *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = told;
            scores
        }))
    }

    fn sampled(&mut self, _: u64, model: &Objective) -> Result<bool> {
        let (Some(config), Some(tokenizer), Some(decoder)) = (
            &self.experiment.train.sample,
            &self.tokenizers.text,
            model.networks().language_model,
        ) else {
            return Ok(true);
        };
        let sampling = Sampling {
            temperature: config.temperature,
            seed: self.experiment.seed,
            ..Sampling::default()
        };
        let prompt = tokenizer.encode(&config.prompt)?;
        let database = self
            .database
            .as_deref()
            .map(|found| found as &dyn Retriever);
        let prompts: &[&[u32]] = &[&prompt];
        let mut generator =
            TextGenerator::with_retriever(decoder, self.context, prompts, database)?;
        generator.reserve(config.tokens);
        for _ in 0..config.tokens {
            if self.stop.is_raised() {
                return Ok(false);
            }
            generator.next(&sampling);
        }
        self.sample = Some(tokenizer.decode(generator.tokens(0)));
        Ok(true)
    }

    fn evaluated(&mut self, step: u64) -> Result<()> {
        let (Some(config), Some(samples), Some(text)) = (
            &self.experiment.train.sample,
            &mut self.samples,
            self.sample.take(),
        ) else {
            return Ok(());
        };
        let line = serde_json::json!({ "step": step, "prompt": config.prompt, "text": text });
        samples.append(&line)?;
        self.options.follower.sample(step, &text);
        Ok(())
    }

    fn commit_samples(&mut self) -> Result<u64> {
        self.samples.as_mut().map_or(Ok(0), Journal::commit)
    }
}

/// The text pairs that evaluations generate texts for: those of the validation split, or `decode.valid_items` of them drawn at
/// random. A run of an earlier version uses the first ones.
pub(super) fn texts(experiment: &Experiment, data: &Data, drawn: bool) -> Option<Arc<Texts>> {
    let all = data.pairs.valid.clone()?;
    let count = experiment.decode.valid_items.unwrap_or(usize::MAX);
    if !drawn || count >= all.len() {
        return Some(all);
    }
    Some(Arc::new(
        all.select(&sample::sampled_numbers(all.len(), count)),
    ))
}

/// As [`texts`], for captions and transcripts.
pub(super) fn captions(experiment: &Experiment, data: &Data) -> Option<Arc<Captions>> {
    let all = data.captions.valid.clone()?;
    match experiment.decode.valid_items {
        Some(count) if count < all.len() => Some(Arc::new(
            all.select(&sample::sampled_numbers(all.len(), count)),
        )),
        Some(_) | None => Some(all),
    }
}
