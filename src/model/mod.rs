//! Whole networks: ids in, hidden states and logits out; no loss.

pub mod decoder;
pub mod preset;

use crate::nn::Kind;
use burn::tensor::Device;
pub use decoder::{Decoder, DecoderConfig};
use serde::{Deserialize, Serialize};

/// The kinds of `[model]`.
pub const KINDS: &[Kind] = &[decoder::KIND];

/// Which network an experiment trains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// A decoder-only language model.
    Decoder(DecoderConfig),
}

/// What a model learns about its surroundings when it is built.
#[derive(Clone, Copy, Debug)]
pub struct ModelInputs<'a> {
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Longest training input in tokens.
    pub context: usize,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Where parameters live.
    pub device: &'a Device,
}
