//! Scores generated texts against references.

use crate::data::{Captions, Texts};
use crate::error::Result;
use crate::evaluate::bleu::Bleu;
use crate::evaluate::chrf::Chrf;
use crate::evaluate::error_rate::{ErrorRate, Unit};
use crate::evaluate::rouge::{Rouge, RougeOptions};
use crate::evaluate::ter::Ter;
use crate::generate::beam::{BeamConfig, LengthLimit};
use crate::generate::{Describer, TextMetric, Translator};
use std::collections::BTreeMap;

/// Scores the outputs of `translator` for the first `items` sources, and returns messages about texts that reached a length
/// limit. Both are empty if there is no source or no metric.
///
/// # Errors
/// Those of [`Translator::write`].
pub fn score_translations(
    translator: &Translator,
    texts: &Texts,
    items: usize,
    search: &BeamConfig,
    metrics: &[TextMetric],
) -> Result<(BTreeMap<String, f64>, Vec<String>)> {
    let count = items.min(texts.len());
    if count == 0 || metrics.is_empty() {
        return Ok(Default::default());
    }
    let (written, reached) = generate_texts(translator, &texts.sources[..count], search)?;
    let scores = text_metrics(&written, &texts.references[..count], metrics);
    Ok((scores, limit_messages(&reached, count, search)))
}

/// One line for each limit that some of `count` texts reached.
pub fn limit_messages(reached: &[LengthLimit], count: usize, search: &BeamConfig) -> Vec<String> {
    let of = |limit: LengthLimit| {
        let found = reached.iter().filter(|one| **one == limit).count();
        (found > 0).then(|| {
            format!(
                "{found} of {count} texts reached the length limit ({}) and may be incomplete",
                search.describe_limit(limit)
            )
        })
    };
    LengthLimit::ALL.into_iter().filter_map(of).collect()
}

/// Generates the best text of `translator` for each source, and returns the limits that were reached.
///
/// # Errors
/// Those of [`Translator::write`].
pub fn generate_texts(
    translator: &Translator,
    sources: &[String],
    search: &BeamConfig,
) -> Result<(Vec<String>, Vec<LengthLimit>)> {
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let written = translator.write(&sources, search)?.into_iter();
    let mut reached = Vec::new();
    let best = written.map(|best| {
        let best = best.into_iter().next();
        reached.extend(best.as_ref().and_then(|w| w.limit));
        best.map(|w| w.text).unwrap_or_default()
    });
    let best = best.collect();
    Ok((best, reached))
}

/// As [`score_translations`], for the texts that `describer` generates for images or recordings.
///
/// # Errors
/// Those of [`Describer::write`].
pub fn score_captions(
    describer: &Describer,
    captions: &Captions,
    search: &BeamConfig,
    metrics: &[TextMetric],
) -> Result<BTreeMap<String, f64>> {
    if captions.is_empty() || metrics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut written: Vec<String> = Vec::with_capacity(captions.len());
    while written.len() < captions.len() {
        // Only one batch of inputs is in memory at a time.
        let end = captions.len().min(written.len() + describer.batch_size());
        let found = describer.write(captions, written.len()..end, search)?;
        let best = found.into_iter().map(|found| found.into_iter().next());
        written.extend(best.map(|best| best.map(|w| w.text).unwrap_or_default()));
    }
    Ok(text_metrics(&written, &captions.references, metrics))
}

/// Computes metrics of texts against their references.
pub fn text_metrics(
    written: &[String],
    references: &[Vec<String>],
    metrics: &[TextMetric],
) -> BTreeMap<String, f64> {
    let pairs = || written.iter().zip(references);
    let error_rate = |unit: Unit| {
        let mut rate = ErrorRate::new(unit);
        pairs().for_each(|(text, references)| rate.add(text, references));
        rate.score()
    };
    let mut values = BTreeMap::new();
    let mut keep = |name: &str, value: f64| {
        values.insert(name.to_string(), value);
    };
    for metric in metrics {
        match metric {
            TextMetric::Bleu => {
                let mut bleu = Bleu::default();
                pairs().for_each(|(text, references)| bleu.add(text, references));
                keep("bleu", bleu.score().score);
            }
            TextMetric::Chrf => {
                let mut chrf = Chrf::default();
                pairs().for_each(|(text, references)| chrf.add(text, references));
                keep("chrf", chrf.score().score);
            }
            TextMetric::Ter => {
                let mut ter = Ter::default();
                pairs().for_each(|(text, references)| ter.add(text, references));
                keep("ter", ter.score().score);
            }
            TextMetric::Wer => keep("wer", error_rate(Unit::Words)),
            TextMetric::Cer => keep("cer", error_rate(Unit::Characters)),
            TextMetric::Rouge => {
                let mut rouge = Rouge::new(RougeOptions { stemmer: true });
                pairs().for_each(|(text, references)| {
                    rouge.add(text, references);
                });
                let score = rouge.score();
                keep("rouge_1", score.rouge_1.f1);
                keep("rouge_2", score.rouge_2.f1);
                keep("rouge_l", score.rouge_l.f1);
            }
            TextMetric::ExactMatch => {
                let right =
                    |(text, references): &(&String, &Vec<String>)| references.contains(text);
                let hits = pairs().filter(right).count();
                keep("exact_match", hits as f64 / written.len() as f64);
            }
        }
    }
    values
}
