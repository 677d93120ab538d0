//! Text from a trained model: one token at a time with a key-value cache, or the best of many by beam search.

pub mod beam;
pub mod decode;
pub mod sampling;
pub mod text;
pub mod translate;

use crate::error::{Error, Result};
use crate::model::Decoder;
use crate::model::decoder::{DecoderCache, DecoderInput};
use crate::nn::pass::Pass;
pub use beam::{BeamConfig, Hypothesis, LengthPenalty, NextScores, Rules, Sentence};
use burn::tensor::{Device, Int, Tensor, TensorData};
pub use decode::{DecodeConfig, TextMetric};
pub use sampling::Sampling;
pub use text::{Stops, TextStream};
pub use translate::{Translator, Written};

/// Decodes from a model in evaluation mode.
pub struct Generator<'a> {
    model: &'a Decoder,
    device: Device,
    limit: usize,
    cache: DecoderCache,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl<'a> Generator<'a> {
    /// Reads the prompt in one pass. `context` is the length that the model was trained with; it never sees
    /// more tokens at once.
    ///
    /// # Errors
    /// An empty prompt.
    pub fn new(model: &'a Decoder, context: usize, prompt: &[u32]) -> Result<Self> {
        if prompt.is_empty() {
            return Err(Error::usage(
                "the prompt is empty: give at least one token to continue",
            ));
        }
        let mut generator = Self {
            model,
            device: model.embedding.weight.val().device(),
            limit: model.max_len().unwrap_or(context).min(context).max(1),
            cache: model.cache(),
            tokens: prompt.to_vec(),
            logits: Vec::new(),
        };
        generator.refill();
        Ok(generator)
    }

    /// Scores of the next token.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The prompt and what was generated.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Draws the next token and reads it.
    pub fn next(&mut self, sampling: &Sampling) -> u32 {
        let token = sampling.draw(&self.logits, &self.tokens);
        self.push(token);
        token
    }

    /// Reads a token that was chosen elsewhere.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
        if self.cache.len() >= self.limit {
            self.refill();
        } else {
            self.logits = self.read(&[token]);
        }
    }

    /// Starts the cache anew. A text longer than the limit keeps its newest half, so that room is left for
    /// as many tokens before this happens again.
    fn refill(&mut self) {
        self.cache = self.model.cache();
        let window = if self.tokens.len() <= self.limit {
            self.tokens.len()
        } else {
            self.limit.div_ceil(2)
        };
        let recent = self.tokens[self.tokens.len() - window..].to_vec();
        self.logits = self.read(&recent);
    }

    fn read(&mut self, tokens: &[u32]) -> Vec<f32> {
        let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
        let ids: Tensor<2, Int> =
            Tensor::from_data(TensorData::new(ids, [1, tokens.len()]), &self.device);
        let hidden = self.model.forward(
            DecoderInput::new(ids),
            Some(&mut self.cache),
            &Pass::evaluation(),
        );
        let [_, seq, d] = hidden.dims();
        let last = hidden.slice([0..1, seq - 1..seq, 0..d]);
        self.model.logits(last).into_data().iter::<f32>().collect()
    }
}
