//! The settings of a search: its width, the length of texts, tokens that are never written.

use serde::{Deserialize, Serialize};

use super::LengthPenalty;
use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// Of a text, beyond the share of its source.
const MOST_TOKENS: usize = 1 << 20;

/// How texts are searched for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BeamConfig {
    /// Hypotheses of a source; 1 takes the likeliest token at each step.
    pub beam: usize,
    /// How ended hypotheses are compared.
    pub length_penalty: LengthPenalty,
    /// Texts of each source that are given, `beam` at most.
    pub n_best: usize,
    /// A text has at most `max_len_a` · tokens of its source + `max_len_b` tokens.
    pub max_len_a: f64,
    /// See `max_len_a`.
    pub max_len_b: usize,
    /// Tokens of a text at least, where its source allows so many.
    pub min_len: usize,
}

impl Default for BeamConfig {
    /// As in Vaswani et al., arXiv:1706.03762, section 6.1.
    fn default() -> Self {
        Self {
            beam: 4,
            length_penalty: LengthPenalty::default(),
            n_best: 1,
            max_len_a: 1.0,
            max_len_b: 50,
            min_len: 0,
        }
    }
}

impl BeamConfig {
    /// The likeliest token at each step.
    pub fn greedy() -> Self {
        Self {
            beam: 1,
            ..Self::default()
        }
    }

    /// Tokens of the longest text for a source of so many tokens.
    pub fn max_len(&self, source_len: usize) -> usize {
        ((self.max_len_a * source_len as f64) as usize).saturating_add(self.max_len_b)
    }

    /// All faults of sense; `table` is what its keys are in.
    pub fn faults(&self, table: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[{table}] {message}"));
            }
        };
        let (beam, n_best) = (self.beam, self.n_best);
        fault(beam == 0, "beam = 0; 1 is greedy search".into());
        fault(
            n_best == 0 || n_best > beam.max(1),
            format!("n_best = {n_best} must be 1 to beam = {beam}"),
        );
        fault(
            !(0.0..=1e6).contains(&self.max_len_a),
            format!("max_len_a = {} must be 0 to 1000000", self.max_len_a),
        );
        fault(
            self.max_len_b > MOST_TOKENS,
            format!("max_len_b = {} is more than {MOST_TOKENS}", self.max_len_b),
        );
        fault(
            self.max_len_a == 0.0 && self.max_len_b == 0,
            "max_len_a and max_len_b are both 0, so that every text is empty".into(),
        );
        let penalty = self.length_penalty.fault();
        fault(penalty.is_some(), penalty.unwrap_or_default());
        faults
    }
}

/// The tokens with a role in the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Ends a text.
    pub end: u32,
    /// Never written.
    pub banned: Vec<u32>,
}

impl Rules {
    /// A text ends with the end mark and has no other special token but sentinels: none that begins or separates texts,
    /// fills up rows or stands for the unknown.
    ///
    /// # Errors
    /// A vocabulary without marks.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let end = tokenizer.marks()?.end;
        let written = tokenizer.sentinels(usize::MAX);
        let specials = tokenizer.specials().iter().copied();
        Ok(Self {
            end,
            banned: specials
                .filter(|id| *id != end && !written.contains(id))
                .collect(),
        })
    }
}

impl Rules {
    /// Which tokens may be written or end a text.
    pub(super) fn allowed(&self, vocab_size: usize) -> Vec<bool> {
        assert!((self.end as usize) < vocab_size, "the end mark is a token");
        let mut allowed = vec![true; vocab_size];
        for id in &self.banned {
            if let Some(place) = allowed.get_mut(*id as usize) {
                *place = false;
            }
        }
        allowed[self.end as usize] = true;
        allowed
    }
}
