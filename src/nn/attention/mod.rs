//! Attention: the half of a block in which positions look at each other.
//!
//! The state of incremental decoding is a value that the caller owns ([`super::state`]); there is one forward
//! for training, evaluation and decoding.

pub mod cache;
pub mod diversity;
pub mod entropy;
pub mod heads;
pub mod multi_head;
pub mod segments;
pub mod sliding_window;

use super::Kind;
use super::init::Init;
use super::layer::Layer;
use crate::faults::TableFaults;
pub use crate::kernel::Visibility;
use burn::module::Module;
pub use cache::LayerCache;
use multi_head::{MultiHead, MultiHeadConfig};
pub use segments::SegmentMemory;
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
            Self::SlidingWindow(c) => c.heads.clone(),
        }
    }

    /// The same with `number` of its heads for each number of them: of those of queries, of keys and values.
    #[must_use]
    pub fn with_heads(&self, number: impl Fn(usize) -> usize) -> Self {
        let heads = self.heads();
        let heads = MultiHeadConfig {
            n_heads: number(heads.n_heads),
            n_kv_heads: heads.n_kv_heads.map(number),
            ..heads
        };
        match self {
            Self::MultiHead(_) => Self::MultiHead(heads),
            Self::SlidingWindow(c) => Self::SlidingWindow(c.with_heads(heads)),
        }
    }

    /// How much it remembers of earlier segments, when it does.
    pub fn segments(&self) -> Option<SegmentMemory> {
        match self {
            Self::MultiHead(c) => c.segments(),
            Self::SlidingWindow(c) => c.heads.segments(),
        }
    }

    /// Remembers so many positions in evaluation and decoding; whether it remembers any at all.
    pub fn remember_at_evaluation(&mut self, positions: usize) -> bool {
        let heads = match self {
            Self::MultiHead(c) => c,
            Self::SlidingWindow(c) => &mut c.heads,
        };
        let remembers = heads.segments().is_some();
        if remembers {
            heads.memory_at_evaluation = Some(positions);
        }
        remembers
    }

    /// Most keys that a query of `tokens` positions sees, those of earlier segments included.
    pub fn keys(&self, tokens: usize, causal: bool) -> usize {
        match self {
            Self::MultiHead(c) => c.segments().map_or(tokens, |s| s.keys(tokens)),
            Self::SlidingWindow(c) => c.keys(tokens, causal),
        }
    }

    /// Faults of its keys; `d_model` is the model's width, when that is sound. The width of a head, when it has one.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        match self {
            Self::MultiHead(c) => c.faults(d_model, at),
            Self::SlidingWindow(c) => c.faults(d_model, at),
        }
    }

    /// Faults of its keys where it is cross-attention's.
    pub fn faults_across(&self, d_model: Option<usize>, at: &mut TableFaults) {
        if let Self::SlidingWindow(c) = self {
            c.faults_across(at);
        }
        if self.segments().is_some() {
            let rule = "memory has no effect in cross-attention, which sees the whole source; leave it out";
            at.fault(&["memory", "memory_at_evaluation"], rule);
        }
        self.faults(d_model, at);
    }

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        self.heads().kept(d_model)
    }

    /// Numbers that are kept of each row for the hidden states of earlier segments.
    pub fn kept_earlier(&self, d_model: usize) -> u128 {
        self.heads().kept_earlier(d_model)
    }

    /// Multiplications of a forward pass over so many positions of a model of width `d_model`, which see each other.
    pub fn products(&self, d_model: usize, tokens: usize, causal: bool) -> u128 {
        self.heads().products(d_model, self.pairs(tokens, causal))
    }

    /// Queries of so many positions which see each other, the positions whose keys they see, and most keys that one sees.
    pub fn pairs(&self, tokens: usize, causal: bool) -> [usize; 3] {
        let sources = tokens.saturating_add(self.heads().memory);
        [tokens, sources, self.keys(tokens, causal)]
    }

    /// The same where so many positions look at a memory of `memory` positions.
    pub fn products_across(&self, d_model: usize, tokens: usize, memory: usize) -> u128 {
        self.heads().products(d_model, [tokens, memory, memory])
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

/// An attention with its parameters.
#[derive(Module, Debug)]
pub enum Attention {
    /// Scaled dot products over all positions.
    MultiHead(MultiHead),
    /// Scaled dot products over a position's neighbours.
    SlidingWindow(MultiHead),
}

impl Attention {
    /// The layer that acts: within a sequence, or from a sequence to the memory of its context.
    pub fn layer(&self) -> &dyn Layer {
        match self {
            Self::MultiHead(layer) | Self::SlidingWindow(layer) => layer,
        }
    }
}
