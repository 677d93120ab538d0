//! `[decode]`: how a text is written for a source text and how it is scored, and how a text is continued.

use super::beam::BeamConfig;
use super::continuation::ContinuationConfig;
use super::sampling_config::SamplingConfig;
use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeConfig {
    /// How `translate` and `eval` search for a text. Of the special tokens of the target vocabulary only the end mark
    /// and sentinels are written.
    pub search: BeamConfig,
    /// Beam width of evaluations during training; their other settings are those of `search`.
    #[schemars(range(min = 1, max = MAX_ROWS))]
    pub valid_beam: usize,
    /// Number of sources, from the start of the split, that evaluations during training decode; 0 for none, all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_items: Option<usize>,
    /// Number of sources that are decoded together.
    #[schemars(range(min = 1, max = MAX_ROWS))]
    pub batch_size: usize,
    /// Metrics of decoded texts.
    pub metrics: Vec<TextMetric>,
    /// How `generate` continues a text.
    #[serde(skip_serializing_if = "SamplingConfig::is_default")]
    pub sampling: SamplingConfig,
    /// How `generate` searches for the likeliest continuations; it samples when absent, or if a flag asks for samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beam_search: Option<ContinuationConfig>,
}

impl Default for DecodeConfig {
    fn default() -> Self {
        Self {
            search: BeamConfig::default(),
            valid_beam: 1,
            valid_items: None,
            batch_size: 64,
            metrics: vec![TextMetric::Bleu, TextMetric::Chrf],
            sampling: SamplingConfig::default(),
            beam_search: None,
        }
    }
}

/// A metric of decoded texts against references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextMetric {
    /// Corpus BLEU as sacreBLEU computes it (13a, cased), 0 to 100.
    Bleu,
    /// chrF2, 0 to 100.
    Chrf,
    /// Translation edit rate in percent; lower is better.
    Ter,
    /// Word error rate, 0 for none; lower is better.
    Wer,
    /// Character error rate, 0 for none; lower is better.
    Cer,
    /// F1 of ROUGE-1, ROUGE-2 and ROUGE-L, 0 to 1, with the stemmer.
    Rouge,
    /// Share of texts that are exactly a reference.
    ExactMatch,
}

impl TextMetric {
    /// Returns the names under which the metric is recorded.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Bleu => &["bleu"],
            Self::Chrf => &["chrf"],
            Self::Ter => &["ter"],
            Self::Wer => &["wer"],
            Self::Cer => &["cer"],
            Self::Rouge => &["rouge_1", "rouge_2", "rouge_l"],
            Self::ExactMatch => &["exact_match"],
        }
    }
}

impl DecodeConfig {
    /// Returns the names of the metrics that evaluations during training record.
    pub fn metric_names(&self) -> impl Iterator<Item = &'static str> {
        let on = self.valid_items != Some(0);
        let metrics = self.metrics.iter().filter(move |_| on);
        metrics.flat_map(|metric| metric.names()).copied()
    }

    /// Returns the search settings of evaluations during training.
    pub fn valid_search(&self) -> BeamConfig {
        BeamConfig {
            beam: self.valid_beam,
            n_best: 1,
            ..self.search.clone()
        }
    }

    /// Returns all faults of the keys for text-to-text models.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = search_faults(&self.search, "decode.search");
        for (key, value) in [
            ("valid_beam", self.valid_beam),
            ("batch_size", self.batch_size),
        ] {
            faults.extend(width_fault(&format!("[decode] {key} = {value}"), value));
        }
        for (i, metric) in self.metrics.iter().enumerate() {
            if self.metrics[..i].contains(metric) {
                let name = metric.names()[0];
                faults.push(format!("[decode] metrics contains {name} twice"));
            }
        }
        faults
    }
}

impl DecodeConfig {
    /// Returns all faults of the keys for continuing texts.
    pub fn continuation_faults(&self) -> Vec<String> {
        let searched = self.beam_search.iter();
        let searched = searched.flat_map(|c| search_faults(&c.search(), "decode.beam_search"));
        self.sampling.faults().into_iter().chain(searched).collect()
    }
}

/// Returns the faults of a search whose keys are in `table`.
fn search_faults(search: &BeamConfig, table: &str) -> Vec<String> {
    let beam = search.beam.max(1);
    let wide = width_fault(&format!("[{table}] beam = {beam}"), beam);
    search.faults(table).into_iter().chain(wide).collect()
}

/// Maximum number of beams, batch rows and other rows that are decoded together.
pub const MAX_ROWS: usize = 4096;

/// Checks the value of a flag, if it was given, against the bounds of `[decode]`.
///
/// # Errors
/// If the beam or batch is out of bounds.
pub fn check_width(flag: &str, width: Option<usize>) -> Result<()> {
    let fault = width.and_then(|width| width_fault(&format!("{flag} {width}"), width));
    fault.map_or(Ok(()), |fault| Err(Error::usage(fault)))
}

/// Checks `--beam` and `--n-best`, if they were given, against these bounds and each other.
///
/// # Errors
/// If the beam is out of bounds, or more texts per source are asked for than the beam has.
pub fn check_search(beam: Option<usize>, n_best: Option<usize>) -> Result<()> {
    check_width("--beam", beam)?;
    check_width("--n-best", n_best)?;
    match beam.zip(n_best).filter(|(beam, n_best)| n_best > beam) {
        None => Ok(()),
        Some((beam, n_best)) => Err(Error::usage(format!(
            "--n-best {n_best} must be between 1 and --beam {beam}; increase --beam, or remove it"
        ))),
    }
}

/// Returns the run's search settings with the beam and the number of texts per source from flags.
///
/// # Errors
/// If the resulting settings are invalid.
pub fn with_flags(
    run: &BeamConfig,
    beam: Option<usize>,
    n_best: Option<usize>,
) -> Result<BeamConfig> {
    let n_best = n_best.unwrap_or(run.n_best);
    let search = BeamConfig {
        beam: beam.unwrap_or(run.beam.max(n_best)),
        n_best,
        ..run.clone()
    };
    match search.faults("decode.search").into_iter().next() {
        Some(fault) => Err(Error::usage(fault)),
        None => Ok(search),
    }
}

/// Returns the fault of the width of a beam or a batch; `given` shows how it was given.
fn width_fault(given: &str, width: usize) -> Option<String> {
    let fine = (1..=MAX_ROWS).contains(&width);
    (!fine).then(|| format!("{given} is not between 1 and {MAX_ROWS}"))
}
