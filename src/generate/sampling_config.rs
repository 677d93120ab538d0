//! `[decode.sampling]`: how `generate` continues a text unless flags say otherwise.

use super::sampling::Sampling;
use crate::error::{Error, Result};
use crate::one_table::is_usual;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default number of tokens of a continuation.
pub const DEFAULT_TOKENS: usize = 200;
/// Maximum length of a text that may be requested, in tokens.
const MOST_TOKENS: usize = 1 << 20;

/// How a text is continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingConfig {
    /// Maximum tokens of a continuation; 200 when absent.
    #[schemars(range(min = 1, max = MOST_TOKENS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// Maximum tokens of a prompt and its continuation together, instead of `tokens`.
    #[schemars(range(min = 1, max = MOST_TOKENS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Temperature, which divides the logits; 0 takes the likeliest token.
    #[schemars(range(min = 0))]
    pub temperature: f64,
    /// Samples from the k likeliest tokens; from all when absent. Source: Fan et al. 2018.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Samples from the likeliest tokens that together reach this probability; from all when absent. Source: Holtzman
    /// et al. 2020, section 3.1.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Samples from the tokens that are at least this share as likely as the likeliest one; from all when absent.
    /// Source: Nguyen et al., arXiv:2407.01082, section 3.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f64>,
    /// Repetition penalty: above 1, tokens that already occur become less likely. Source: Keskar et al. 2019, section 4.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub repetition_penalty: f64,
    /// Size of the n-grams that a text contains only once, its prompt included; 0 allows all. If every token would repeat
    /// one, all are allowed. Source: Paulus et al. 2018, section 2.5.
    #[schemars(range(max = MOST_TOKENS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub no_repeat_ngram_size: usize,
    /// Ids of the tokens that end a text; the tokenizer's end-of-text token when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub end: Vec<u32>,
}

impl Default for SamplingConfig {
    fn default() -> Self {
        Self {
            tokens: None,
            max_length: None,
            temperature: 0.8,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: 1.0,
            no_repeat_ngram_size: 0,
            end: Vec::new(),
        }
    }
}

impl SamplingConfig {
    /// Returns whether every key has its default value.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Fails if a text should end with a token that the vocabulary lacks: no text would end.
    pub(crate) fn require_vocabulary(&self, vocab_size: usize) -> Result<()> {
        match self.end.iter().find(|id| **id as usize >= vocab_size) {
            None => Ok(()),
            Some(id) => Err(Error::usage(format!(
                "[decode.sampling] end = {id} is not a token id: the vocabulary has {vocab_size} tokens, numbered from 0"
            ))),
        }
    }

    /// Returns the rules of sampling with this seed.
    pub fn rules(&self, seed: u64) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            no_repeat_ngram_size: self.no_repeat_ngram_size,
            seed,
        }
    }

    /// Returns the number of tokens that may follow a prompt of `prompt` tokens.
    ///
    /// # Errors
    /// If `max_length` leaves no token after the prompt.
    pub fn tokens_after(&self, prompt: usize) -> Result<usize> {
        let Some(most) = self.max_length else {
            return Ok(self.tokens.unwrap_or(DEFAULT_TOKENS));
        };
        match most.checked_sub(prompt).filter(|left| *left > 0) {
            Some(left) => Ok(left),
            None => Err(Error::usage(format!(
                "the prompt has {prompt} tokens, but the run's [decode.sampling] max_length = {most} limits prompt and \
                 continuation together; set the number of new tokens with --tokens"
            ))),
        }
    }

    /// Returns all invalid values.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[decode.sampling] {message}"));
            }
        };
        for (key, value) in [("tokens", self.tokens), ("max_length", self.max_length)] {
            if let Some(n) = value {
                let fine = (1..=MOST_TOKENS).contains(&n);
                fault(
                    !fine,
                    format!("{key} = {n} must be between 1 and {MOST_TOKENS}"),
                );
            }
        }
        fault(
            self.tokens.is_some() && self.max_length.is_some(),
            "tokens and max_length both set the length of a text; remove one".into(),
        );
        let temperature = self.temperature;
        fault(
            !(temperature >= 0.0 && temperature.is_finite()),
            format!("temperature = {temperature} must be 0 (the most likely token) or more"),
        );
        fault(
            self.top_k == Some(0),
            "top_k = 0 must be at least 1; remove it to sample from all tokens".into(),
        );
        let wrong = self.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0));
        fault(
            wrong.is_some(),
            format!("top_p = {} is not in (0, 1]", wrong.unwrap_or_default()),
        );
        let wrong = self.min_p.filter(|p| !(0.0..=1.0).contains(p));
        fault(
            wrong.is_some(),
            format!(
                "min_p = {} must be between 0 and 1",
                wrong.unwrap_or_default()
            ),
        );
        let penalty = self.repetition_penalty;
        fault(
            !(penalty > 0.0 && penalty.is_finite()),
            format!("repetition_penalty = {penalty} must be a number above 0; 1 switches it off"),
        );
        let size = self.no_repeat_ngram_size;
        fault(
            size > MOST_TOKENS,
            format!("no_repeat_ngram_size = {size} must be at most {MOST_TOKENS}"),
        );
        for (key, drawn) in [
            ("top_k", self.top_k.is_some()),
            ("top_p", self.top_p.is_some()),
            ("min_p", self.min_p.is_some()),
        ] {
            fault(
                drawn && temperature == 0.0,
                format!(
                    "{key} has no effect: temperature = 0 selects the most likely token; remove it"
                ),
            );
        }
        faults
    }
}
