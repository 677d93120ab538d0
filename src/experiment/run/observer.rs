//! The observer of a run: it passes reports on, writes samples at evaluations, and measures texts written for sources.

use super::options::Options;
use crate::data::{Texts, Tokenizers};
use crate::error::Result;
use crate::experiment::Experiment;
use crate::experiment::measure::measured;
use crate::generate::{Generator, Sampling, Translator};
use crate::task::Objective;
use crate::train::job::{Observer, Report};
use crate::train::journal::Journal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The observer of a run of an experiment.
pub(super) struct RunObserver {
    pub options: Options,
    pub experiment: Experiment,
    pub tokenizers: Tokenizers,
    pub context: usize,
    /// The pairs behind the validation split.
    pub texts: Option<Arc<Texts>>,
    pub samples: Option<Journal>,
}

impl Observer<Objective> for RunObserver {
    fn report(&mut self, report: &Report) {
        (self.options.report)(report);
    }

    fn scores(&mut self, model: &Objective) -> Result<BTreeMap<String, f64>> {
        let config = &self.experiment.decode;
        let translator = Translator::new(model, &self.tokenizers, config, self.context);
        let (Some(texts), Some(translator)) = (&self.texts, translator) else {
            return Ok(BTreeMap::new());
        };
        let items = config.valid_items.unwrap_or(usize::MAX);
        measured(
            &translator,
            texts,
            items,
            &config.valid_search(),
            &config.metrics,
        )
    }

    fn evaluated(&mut self, step: u64, model: &Objective) -> Result<()> {
        let (Some(config), Some(tokenizer), Some(samples), Some(decoder)) = (
            &self.experiment.train.sample,
            &self.tokenizers.text,
            &mut self.samples,
            model.networks().language_model,
        ) else {
            return Ok(());
        };
        let sampling = Sampling {
            temperature: config.temperature,
            seed: self.experiment.seed,
            ..Sampling::default()
        };
        let prompt = tokenizer.encode(&config.prompt)?;
        let mut generator = Generator::new(decoder, self.context, &[&prompt])?;
        generator.reserve(config.tokens);
        for _ in 0..config.tokens {
            generator.next(&sampling);
        }
        let text = tokenizer.decode(generator.tokens(0));
        let line = serde_json::json!({ "step": step, "prompt": config.prompt, "text": text });
        samples.append(&line)?;
        (self.options.sample)(step, &text);
        Ok(())
    }

    fn commit_samples(&mut self) -> Result<u64> {
        self.samples.as_mut().map_or(Ok(0), Journal::commit)
    }
}
