//! Attention: the half of a block in which positions look at each other.
//!
//! The state of incremental decoding is a value that the caller owns ([`super::state`]); there is one forward
//! for training, evaluation and decoding.

pub mod cache;
pub mod diversity;
pub mod entropy;
pub mod multi_head;

use super::Kind;
use super::init::Init;
use super::layer::Layer;
use crate::faults::TableFaults;
pub use crate::kernel::Visibility;
use burn::module::Module;
pub use cache::LayerCache;
use multi_head::{MultiHead, MultiHeadConfig};
use serde::{Deserialize, Serialize};

/// The kinds of `[model] attention`.
pub const KINDS: &[Kind] = &[multi_head::KIND];

/// Which attention a model uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttentionConfig {
    /// Scaled dot products over all positions: multi-head, grouped-query, multi-query.
    MultiHead(MultiHeadConfig),
}

impl Default for AttentionConfig {
    fn default() -> Self {
        Self::MultiHead(MultiHeadConfig::default())
    }
}

impl AttentionConfig {
    /// Attention over vectors of `d_model` elements, with dropout on its weights.
    pub fn init(&self, d_model: usize, dropout: f64, init: &Init) -> Attention {
        match self {
            Self::MultiHead(c) => Attention::MultiHead(MultiHead::new(c, d_model, dropout, init)),
        }
    }

    /// Faults of its keys; `d_model` is the model's width, when that is sound. The width of a head, when it has one.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        match self {
            Self::MultiHead(c) => c.faults(d_model, at),
        }
    }

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        match self {
            Self::MultiHead(c) => c.kept(d_model),
        }
    }

    /// Query heads.
    pub fn n_heads(&self) -> usize {
        match self {
            Self::MultiHead(c) => c.n_heads,
        }
    }

    /// Width of a head in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        match self {
            Self::MultiHead(c) => c.d_head(d_model),
        }
    }
}

/// An attention with its parameters.
#[derive(Module, Debug)]
pub enum Attention {
    /// Scaled dot products over all positions.
    MultiHead(MultiHead),
}

impl Attention {
    /// The layer that acts: within a sequence, or from a sequence to the memory of its context.
    pub fn layer(&self) -> &dyn Layer {
        match self {
            Self::MultiHead(layer) => layer,
        }
    }
}
