//! Attention: the half of a block in which positions look at each other.
//!
//! The state of incremental decoding is a value that the caller owns ([`LayerCache`]); there is one forward
//! for training, evaluation and decoding.

pub mod cache;
pub mod entropy;
pub mod multi_head;
pub mod sliding_window;

use super::Kind;
use super::init::Init;
use super::pass::Pass;
use super::position::{PositionScheme, Prepared};
pub use crate::kernel::Visibility;
use burn::module::Module;
use burn::tensor::Tensor;
pub use cache::LayerCache;
use multi_head::{MultiHead, MultiHeadConfig};
use serde::{Deserialize, Serialize};
use sliding_window::SlidingWindowConfig;

/// The kinds of `[model] attention`.
pub const KINDS: &[Kind] = &[multi_head::KIND, sliding_window::KIND];

/// Which attention a model uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttentionConfig {
    /// Scaled dot products over all positions: multi-head, grouped-query, multi-query.
    MultiHead(MultiHeadConfig),
    /// Scaled dot products over a position's neighbours.
    SlidingWindow(SlidingWindowConfig),
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
            Self::SlidingWindow(c) => Attention::SlidingWindow(c.init(d_model, dropout, init)),
        }
    }

    /// The heads with their projections, whichever keys they see.
    pub fn heads(&self) -> MultiHeadConfig {
        match self {
            Self::MultiHead(c) => c.clone(),
            Self::SlidingWindow(c) => c.heads(),
        }
    }

    /// Most keys that a query of `tokens` positions sees.
    pub fn keys(&self, tokens: usize, causal: bool) -> usize {
        match self {
            Self::MultiHead(_) => tokens,
            Self::SlidingWindow(c) => c.keys(tokens, causal),
        }
    }

    /// Rules that its own keys break, each with the key.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::MultiHead(_) => Vec::new(),
            Self::SlidingWindow(c) => c.faults(),
        }
    }

    /// Query heads.
    pub fn n_heads(&self) -> usize {
        self.heads().n_heads
    }

    /// Width of a head in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.heads().d_head(d_model)
    }
}

/// What a layer's attention gets beside its input.
pub struct Context<'a> {
    /// Number of the layer in its stack.
    pub layer: usize,
    /// How the model knows where a token stands.
    pub position: &'a dyn PositionScheme,
    /// Rotation and biases of this pass.
    pub prepared: &'a Prepared,
    /// Which keys a query sees.
    pub visible: &'a Visibility,
    /// Keys and values of earlier tokens, in decoding.
    pub cache: Option<&'a mut LayerCache>,
    /// Dropout's draws.
    pub pass: &'a Pass,
}

/// An attention with its parameters.
#[derive(Module, Debug)]
pub enum Attention {
    /// Scaled dot products over all positions.
    MultiHead(MultiHead),
    /// Scaled dot products over a position's neighbours.
    SlidingWindow(MultiHead),
}

impl Attention {
    /// The layer that acts.
    pub fn layer(&self) -> &dyn AttentionLayer {
        match self {
            Self::MultiHead(layer) | Self::SlidingWindow(layer) => layer,
        }
    }
}

/// Attention within a sequence, or from a sequence to a memory.
pub trait AttentionLayer {
    /// `x` `[batch, queries, d_model]` attends to itself, or to `memory` `[batch, keys, d_model]`.
    fn forward(&self, x: Tensor<3>, memory: Option<Tensor<3>>, context: Context) -> Tensor<3>;
}
