//! `[decode]`: how a text is written for a source text, and how that is measured.

use serde::{Deserialize, Serialize};

/// The knobs of decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeConfig {
    /// Hypotheses that are followed at a time; 1 takes the likeliest token each time.
    pub beam: usize,
    /// Hypotheses are compared by log p / length^penalty (Ott et al. 2018, lenpen); 0 compares log p itself.
    pub length_penalty: f64,
    /// A target has at most this many times the tokens of its source …
    pub max_ratio: f64,
    /// … and this many more.
    pub max_extra: usize,
    /// Sources that are decoded together.
    pub batch_size: usize,
    /// What decoded texts are measured by.
    pub metrics: Vec<TextMetric>,
    /// Beam of the evaluations on the way.
    pub valid_beam: usize,
    /// Sources that evaluations on the way decode, the first ones of the split; 0 for none, all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_items: Option<usize>,
}

impl Default for DecodeConfig {
    fn default() -> Self {
        Self {
            beam: 4,
            length_penalty: 1.0,
            max_ratio: 1.5,
            max_extra: 10,
            batch_size: 64,
            metrics: vec![TextMetric::Bleu, TextMetric::Chrf],
            valid_beam: 1,
            valid_items: None,
        }
    }
}

/// A measure of decoded texts against references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMetric {
    /// Corpus BLEU as sacreBLEU computes it (13a, cased), 0 to 100.
    Bleu,
    /// chrF2, 0 to 100.
    Chrf,
    /// Translation edit rate in percent; lower is better.
    Ter,
    /// F1 of ROUGE-1, ROUGE-2 and ROUGE-L, 0 to 1, with the stemmer.
    Rouge,
    /// Share of targets that are exactly the reference.
    ExactMatch,
}

impl TextMetric {
    /// The names under which it is written down.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Bleu => &["bleu"],
            Self::Chrf => &["chrf"],
            Self::Ter => &["ter"],
            Self::Rouge => &["rouge_1", "rouge_2", "rouge_l"],
            Self::ExactMatch => &["exact_match"],
        }
    }
}

impl DecodeConfig {
    /// The metrics that evaluations on the way write down.
    pub fn measured(&self) -> impl Iterator<Item = &'static str> {
        let on = self.valid_items != Some(0);
        let metrics = self.metrics.iter().filter(move |_| on);
        metrics.flat_map(|metric| metric.names()).copied()
    }

    /// All faults of its keys.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, value) in [
            ("beam", self.beam),
            ("valid_beam", self.valid_beam),
            ("batch_size", self.batch_size),
        ] {
            if !(1..=MOST).contains(&value) {
                faults.push(format!("{key} = {value} is not between 1 and {MOST}"));
            }
        }
        for (key, value) in [
            ("length_penalty", self.length_penalty),
            ("max_ratio", self.max_ratio),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                faults.push(format!("{key} = {value:?} must be 0 or more"));
            }
        }
        if self.max_ratio == 0.0 && self.max_extra == 0 {
            faults.push("max_extra = 0 leaves no token to write where max_ratio = 0.0".into());
        }
        faults
    }
}

/// Of beams and batches.
const MOST: usize = 4096;
