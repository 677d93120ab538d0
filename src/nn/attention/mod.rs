//! Attention: the half of a block in which positions attend to each other.
//!
//! The state of incremental decoding is a value that the caller owns ([`super::state`]); the same forward function serves
//! training, evaluation and decoding.

pub mod adaptive_span;
pub mod big_bird;
pub mod cache;
mod cross_products;
pub mod differential;
pub mod diversity;
pub mod entropy;
pub mod facts;
pub mod featured;
pub mod fixed;
pub mod global_tokens;
pub mod heads;
pub mod inputs;
pub mod latent;
pub mod linear;
pub mod linformer;
pub mod local;
pub mod lsh;
pub mod memory_compressed;
pub mod multi_head;
pub mod performer;
mod projected;
pub mod random_features;
pub mod segments;
pub mod sliding_window;
pub mod strided;

use super::Kind;
use super::init::Init;
use super::layer::Layer;
pub use crate::kernel::Visibility;
use adaptive_span::{AdaptiveSpan, AdaptiveSpanConfig};
use big_bird::BigBirdConfig;
use burn::module::Module;
pub use cache::LayerCache;
use differential::{Differential, DifferentialConfig};
pub use facts::{Abilities, AttentionFacts, AttentionShape, ReadingDirection};
use featured::Featured;
use fixed::FixedConfig;
pub use inputs::{AttentionInputs, KeyWeighing};
use latent::{Latent, LatentConfig};
use linear::LinearConfig;
use linformer::{Linformer, LinformerConfig};
use local::LocalConfig;
use lsh::{Lsh, LshConfig};
use memory_compressed::{MemoryCompressed, MemoryCompressedConfig};
use multi_head::{MultiHead, MultiHeadConfig};
use performer::PerformerConfig;
use schemars::JsonSchema;
pub use segments::SegmentMemory;
use serde::{Deserialize, Serialize};
use sliding_window::SlidingWindowConfig;
use strided::StridedConfig;

/// The kinds of `[model] attention`.
pub const KINDS: &[Kind] = &[
    multi_head::KIND,
    sliding_window::KIND,
    local::KIND,
    big_bird::KIND,
    strided::KIND,
    fixed::KIND,
    linformer::KIND,
    memory_compressed::KIND,
    adaptive_span::KIND,
    linear::KIND,
    performer::KIND,
    lsh::KIND,
    latent::KIND,
    differential::KIND,
];

/// The attention of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttentionConfig {
    /// Scaled dot products over all positions: multi-head, grouped-query, multi-query.
    MultiHead(MultiHeadConfig),
    /// Scaled dot products over a position's neighbours.
    SlidingWindow(SlidingWindowConfig),
    /// Scaled dot products over a position's own block and neighbouring blocks.
    Local(LocalConfig),
    /// Scaled dot products over neighbouring, global and random blocks.
    BigBird(BigBirdConfig),
    /// Scaled dot products over the last positions in some heads, every stride-th in the others.
    Strided(StridedConfig),
    /// Scaled dot products over a position's own block in some heads, over the last positions of every block in the others.
    Fixed(FixedConfig),
    /// Scaled dot products over keys that are projected along positions.
    Linformer(LinformerConfig),
    /// Scaled dot products over keys whose number a strided convolution reduces.
    MemoryCompressed(MemoryCompressedConfig),
    /// Scaled dot products over a span that each head learns.
    AdaptiveSpan(AdaptiveSpanConfig),
    /// Products of the features elu(x) + 1.
    Linear(LinearConfig),
    /// A softmax estimated by random features.
    Performer(PerformerConfig),
    /// Scaled dot products over positions of the same hash bucket.
    Lsh(LshConfig),
    /// Scaled dot products over keys and values that are computed from a narrow vector of each position.
    Latent(LatentConfig),
    /// The difference of the softmaxes of two heads.
    Differential(DifferentialConfig),
}

impl Default for AttentionConfig {
    fn default() -> Self {
        Self::MultiHead(MultiHeadConfig::default())
    }
}

impl AttentionConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Attention {
        match self {
            Self::MultiHead(c) => Attention::MultiHead(MultiHead::new(c, shape, init)),
            Self::SlidingWindow(c) => Attention::SlidingWindow(c.init(shape, init)),
            Self::Local(c) => Attention::Local(c.init(shape, init)),
            Self::BigBird(c) => Attention::BigBird(c.init(shape, init)),
            Self::Strided(c) => Attention::Strided(c.init(shape, init)),
            Self::Fixed(c) => Attention::Fixed(c.init(shape, init)),
            Self::Linformer(c) => Attention::Linformer(c.init(shape, init)),
            Self::MemoryCompressed(c) => Attention::MemoryCompressed(c.init(shape, init)),
            Self::AdaptiveSpan(c) => Attention::AdaptiveSpan(c.init(shape, init)),
            Self::Linear(c) => Attention::Featured(c.init(shape, init)),
            Self::Performer(c) => Attention::Featured(c.init(shape, init)),
            Self::Lsh(c) => Attention::Lsh(c.init(shape, init)),
            Self::Latent(c) => Attention::Latent(c.init(shape, init)),
            Self::Differential(c) => Attention::Differential(c.init(shape, init)),
        }
    }

    /// Returns the facts that checks and plans query.
    pub fn facts(&self) -> &dyn AttentionFacts {
        match self {
            Self::MultiHead(c) => c,
            Self::SlidingWindow(c) => c,
            Self::Local(c) => c,
            Self::BigBird(c) => c,
            Self::Strided(c) => c,
            Self::Fixed(c) => c,
            Self::Linformer(c) => c,
            Self::MemoryCompressed(c) => c,
            Self::AdaptiveSpan(c) => c,
            Self::Linear(c) => c,
            Self::Performer(c) => c,
            Self::Lsh(c) => c,
            Self::Latent(c) => c,
            Self::Differential(c) => c,
        }
    }

    fn facts_mut(&mut self) -> &mut dyn AttentionFacts {
        match self {
            Self::MultiHead(c) => c,
            Self::SlidingWindow(c) => c,
            Self::Local(c) => c,
            Self::BigBird(c) => c,
            Self::Strided(c) => c,
            Self::Fixed(c) => c,
            Self::Linformer(c) => c,
            Self::MemoryCompressed(c) => c,
            Self::AdaptiveSpan(c) => c,
            Self::Linear(c) => c,
            Self::Performer(c) => c,
            Self::Lsh(c) => c,
            Self::Latent(c) => c,
            Self::Differential(c) => c,
        }
    }
}

/// An attention layer with its parameters.
#[derive(Module, Debug)]
pub enum Attention {
    /// Scaled dot products over all positions.
    MultiHead(MultiHead),
    /// Scaled dot products over a position's neighbours.
    SlidingWindow(MultiHead),
    /// Scaled dot products over a position's own block and neighbouring blocks.
    Local(MultiHead),
    /// Scaled dot products over neighbouring, global and random blocks.
    BigBird(MultiHead),
    /// Scaled dot products over the last positions, and over every stride-th.
    Strided(MultiHead),
    /// Scaled dot products over a position's own block, and over the last positions of every block.
    Fixed(MultiHead),
    /// Scaled dot products over keys that are projected along positions.
    Linformer(Linformer),
    /// Scaled dot products over keys whose number a strided convolution reduces.
    MemoryCompressed(MemoryCompressed),
    /// Scaled dot products over a span that each head learns.
    AdaptiveSpan(AdaptiveSpan),
    /// Products of features (linear attention and Performer).
    Featured(Featured),
    /// Scaled dot products over positions of the same hash bucket.
    Lsh(Lsh),
    /// Scaled dot products over keys and values that are computed from a narrow vector of each position.
    Latent(Latent),
    /// The difference of the softmaxes of two heads.
    Differential(Differential),
}

impl Attention {
    /// Returns the variant's layer: self-attention, or attention to the memory of its context.
    pub fn layer(&self) -> &dyn Layer {
        match self {
            Self::MultiHead(layer)
            | Self::SlidingWindow(layer)
            | Self::Local(layer)
            | Self::BigBird(layer)
            | Self::Strided(layer)
            | Self::Fixed(layer) => layer,
            Self::Linformer(layer) => layer,
            Self::MemoryCompressed(layer) => layer,
            Self::AdaptiveSpan(layer) => layer,
            Self::Featured(layer) => layer,
            Self::Lsh(layer) => layer,
            Self::Latent(layer) => layer,
            Self::Differential(layer) => layer,
        }
    }

    /// Whether the layer sees the tokens that a task marks as global.
    pub fn sees_globals(&self) -> bool {
        match self {
            Self::MultiHead(layer) | Self::SlidingWindow(layer) => layer.sees_globals(),
            _ => false,
        }
    }
}
