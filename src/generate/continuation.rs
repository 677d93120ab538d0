//! The likeliest continuations of prompts by beam search, as transformers' `generate` with `num_beams` finds them (5.24).
//!
//! A prompt's tokens do not count in a score, and the length that a score is divided by counts only the new tokens,
//! including the one that ends a text. A repetition penalty multiplies log-probabilities, as in transformers; the
//! results are summed.

use super::beam::{
    AtLimit, AverageConfig, BeamConfig, DoneWhen, Hypothesis, LengthPenalty, NextScores,
    SearchStart, TokenRules, search,
};
use super::sampling::{distinct_tokens, penalised};
use super::{Sampling, TextGenerator};
use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the likeliest continuations are searched for; the defaults are those of transformers. The number of tokens, the
/// repetition penalty, `no_repeat_ngram_size` and the tokens that end a text are those of `[decode.sampling]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContinuationConfig {
    /// Number of hypotheses per prompt; 1 takes the likeliest token at each step.
    #[schemars(range(min = 1, max = 4096))]
    pub beam: usize,
    /// Number of continuations returned per prompt, at most `beam`.
    #[schemars(range(min = 1, max = 4096))]
    pub n_best: usize,
    /// How finished hypotheses are compared; their lengths count only the new tokens.
    pub length_penalty: LengthPenalty,
    /// When the search for a prompt is finished, with a beam of several hypotheses.
    pub done_when: DoneWhen,
}

impl Default for ContinuationConfig {
    fn default() -> Self {
        Self {
            beam: 4,
            n_best: 1,
            length_penalty: LengthPenalty::Average(AverageConfig::default()),
            done_when: DoneWhen::Unlikely,
        }
    }
}

impl ContinuationConfig {
    /// Returns the search settings; the command sets the length of texts.
    pub fn search(&self) -> BeamConfig {
        BeamConfig {
            beam: self.beam,
            n_best: self.n_best,
            length_penalty: self.length_penalty,
            done_when: self.done_when,
            at_limit: AtLimit::Any,
            ..BeamConfig::default()
        }
    }
}

/// Finds the likeliest continuations of each row of a generator, the best first, of 1 to `most` tokens including the
/// one of `ends` that ends a text; ids outside the vocabulary are ignored. Only the repetition penalty of `sampling` and its
/// rule about n-grams are used: nothing is sampled.
///
/// # Errors
/// If scores are not finite.
pub fn search_continuations(
    generator: TextGenerator,
    most: usize,
    ends: &[u32],
    sampling: &Sampling,
    config: &BeamConfig,
) -> Result<Vec<Vec<Hypothesis>>> {
    let vocab_size = generator.logits(0).len();
    let tokens = ends.iter().filter(|id| (**id as usize) < vocab_size);
    let rules = TokenRules {
        ends: tokens.copied().collect(),
        banned: Vec::new(),
    };
    let config = BeamConfig {
        no_repeat_ngram_size: sampling.no_repeat_ngram_size,
        ..config.clone()
    };
    let rows = 0..generator.rows();
    let sentences: Vec<SearchStart> = rows
        .map(|row| SearchStart {
            prompt: generator.tokens(row).to_vec(),
            max_len: most.saturating_sub(1),
        })
        .collect();
    let mut reading = GeneratorScores {
        generator,
        repetition_penalty: sampling.repetition_penalty,
        begun: false,
    };
    search(&mut reading, &sentences, &rules, &config)
}

/// A generator whose rows are hypotheses.
struct GeneratorScores<'a> {
    generator: TextGenerator<'a>,
    repetition_penalty: f64,
    /// Whether the first scores were requested: the generator has then already read the prompts.
    begun: bool,
}

impl NextScores for GeneratorScores<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        if self.begun {
            self.generator.push(tokens);
        }
        self.begun = true;
        let mut scores = Vec::new();
        for row in 0..self.generator.rows() {
            let from = scores.len();
            scores.extend(log_probs(self.generator.logits(row)));
            self.penalise(&mut scores[from..], self.generator.tokens(row));
        }
        Ok(scores)
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.generator.select(rows);
        Ok(())
    }
}

impl GeneratorScores<'_> {
    fn penalise(&self, scores: &mut [f32], tokens: &[u32]) {
        if self.repetition_penalty == 1.0 {
            return;
        }
        for id in distinct_tokens(tokens) {
            if let Some(score) = scores.get_mut(id as usize) {
                *score = penalised(f64::from(*score), self.repetition_penalty) as f32;
            }
        }
    }
}

/// Returns the log-probabilities of a row's logits.
fn log_probs(logits: &[f32]) -> impl Iterator<Item = f32> {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - most).exp()).sum();
    let whole = most + sum.ln();
    logits.iter().map(move |x| (f64::from(*x) - whole) as f32)
}
