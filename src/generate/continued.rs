//! The likeliest continuations of prompts, by beam search, as transformers' `generate` with `num_beams` finds them (5.24).
//!
//! A prompt's tokens have no part in a score, and the length that a score is divided by counts the new tokens alone, the
//! one that ends a text among them. A repetition penalty changes log-probabilities, which it multiplies, as in
//! transformers; what it makes of them is added up.

use super::beam::{
    AtLimit, AverageConfig, BeamConfig, DoneWhen, Hypothesis, LengthPenalty, NextScores, Rules,
    Sentence, search,
};
use super::sampling::{penalised, present};
use super::{Generator, Sampling};
use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the likeliest continuations are searched for: the usual values are those of transformers. Tokens, the repetition penalty
/// and the ends of a text are those of `[decode.sampling]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContinuationConfig {
    /// Hypotheses of a prompt; 1 takes the likeliest token at each step.
    #[schemars(range(min = 1, max = 4096))]
    pub beam: usize,
    /// Continuations of each prompt that are given, `beam` at most.
    #[schemars(range(min = 1, max = 4096))]
    pub n_best: usize,
    /// How ended hypotheses are compared, whose lengths count the new tokens alone.
    pub length_penalty: LengthPenalty,
    /// When a prompt is done, of a beam of several hypotheses.
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
    /// The search that it stands for; the length of texts is that of the command.
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

/// The likeliest continuations of each row of a generator, the best first, of 1 to `most` tokens with the one of `ends` that
/// ends a text; an id that is no token ends none. Of `sampling` the repetition penalty is used: nothing is drawn.
///
/// # Errors
/// Scores that are not numbers.
pub fn likeliest(
    generator: Generator,
    most: usize,
    ends: &[u32],
    sampling: &Sampling,
    config: &BeamConfig,
) -> Result<Vec<Vec<Hypothesis>>> {
    let vocab_size = generator.logits(0).len();
    let tokens = ends.iter().filter(|id| (**id as usize) < vocab_size);
    let rules = Rules {
        ends: tokens.copied().collect(),
        banned: Vec::new(),
    };
    let rows = 0..generator.rows();
    let sentences: Vec<Sentence> = rows
        .map(|row| Sentence {
            first: generator.tokens(row).last().copied().unwrap_or_default(),
            max_len: most.saturating_sub(1),
        })
        .collect();
    let mut reading = Reading {
        generator,
        repetition_penalty: sampling.repetition_penalty,
        begun: false,
    };
    search(&mut reading, &sentences, &rules, config)
}

/// A generator whose rows are hypotheses.
struct Reading<'a> {
    generator: Generator<'a>,
    repetition_penalty: f64,
    /// Whether the first tokens were asked for: the generator has read the prompts whole.
    begun: bool,
}

impl NextScores for Reading<'_> {
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

impl Reading<'_> {
    fn penalise(&self, scores: &mut [f32], tokens: &[u32]) {
        if self.repetition_penalty == 1.0 {
            return;
        }
        for id in present(tokens) {
            if let Some(score) = scores.get_mut(id as usize) {
                *score = penalised(f64::from(*score), self.repetition_penalty) as f32;
            }
        }
    }
}

/// Log-probabilities of a row's scores.
fn log_probs(logits: &[f32]) -> impl Iterator<Item = f32> {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - most).exp()).sum();
    let whole = most + sum.ln();
    logits.iter().map(move |x| (f64::from(*x) - whole) as f32)
}
