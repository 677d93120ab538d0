//! Facts about a kind of attention, queried by checks and plans. Each kind states them in its own file.

use super::segments::SegmentMemory;
use super::{AttentionConfig, MultiHeadConfig};
use crate::faults::TableFaults;
use crate::kind::Kind;
use crate::nn::position::HeadEffect;

/// The sizes that an attention is built from.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Width of the layer's input and output.
    pub d_model: usize,
    /// Width of the vectors from which keys and values are computed; differs from `d_model` in attention to a memory of another
    /// network.
    pub d_memory: usize,
    /// Dropout on the attention weights.
    pub dropout: f64,
    /// Factor on the scores beside 1/√d_head, squared if the config gives a scale; 1 except in μP.
    pub score_factor: f64,
    /// Number of positions of the longest input.
    pub context: usize,
    /// Whether the stack reads from left to right.
    pub causal: bool,
    /// Number of the block in the stack, from 0.
    pub layer: usize,
    /// Number of the first block whose attention has the same settings; parameters that all of these layers share are stored
    /// there.
    pub lender: usize,
}

impl AttentionShape {
    /// Returns the shape of attention outside a stack: the first layer of a network that reads both ways.
    pub fn standalone(d_model: usize, context: usize) -> Self {
        Self {
            d_model,
            d_memory: d_model,
            dropout: 0.0,
            score_factor: 1.0,
            context,
            causal: false,
            layer: 0,
            lender: 0,
        }
    }
}

/// The reading directions that a kind supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingDirection {
    /// A query may or may not see later keys, as the stack requires.
    Either,
    /// Every query sees keys on both sides; the kind cannot be causal.
    Bidirectional,
    /// No query sees a later key.
    Causal,
}

/// The surroundings that a kind supports.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// The reading directions.
    pub reads: ReadingDirection,
    /// The ways in which positions may act on the heads.
    pub positions: &'static [HeadEffect],
    /// Whether a rotation can be applied to values as well as keys.
    pub rotated_values: bool,
    /// Whether documents of one row can be masked from each other.
    pub documents: bool,
    /// Whether the source of a prefix language model can see all of itself.
    pub prefix: bool,
    /// Whether the kind can attend to hidden states of earlier segments.
    pub segments: bool,
    /// Whether the kind can attend to a memory, as cross-attention.
    pub across: bool,
    /// Whether the kind computes a weight for each query and key that it sees; dropout, entropies and records act on these
    /// weights.
    pub weights: bool,
    /// Whether attention sinks may compete with the keys.
    pub sinks: bool,
}

impl Abilities {
    /// The abilities of dot-product attention over keys that are visible or masked.
    pub const ALL: Self = Self {
        reads: ReadingDirection::Either,
        positions: &[HeadEffect::Rotation, HeadEffect::Bias, HeadEffect::Vectors],
        rotated_values: true,
        documents: true,
        prefix: true,
        segments: true,
        across: true,
        weights: true,
        sinks: false,
    };
}

/// The facts of a kind; the defaults are those of dot products over all keys.
pub trait AttentionFacts {
    /// Entry of this kind in its family's table.
    fn kind(&self) -> Kind;

    /// Returns the heads with their projections, regardless of which keys they see. A kind with other projections returns the
    /// multi-head settings that come closest.
    fn heads(&self) -> MultiHeadConfig;

    /// Replaces the heads by others, for example fewer or narrower ones; settings with one number per head are adapted.
    fn set_heads(&mut self, heads: MultiHeadConfig);

    /// Returns the width of the part of a head that positions act on, in a model of width `d_model`.
    fn d_head(&self, d_model: usize) -> usize {
        self.heads().d_head(d_model)
    }

    /// Returns the surroundings that the kind supports.
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    /// Whether the kind sees the tokens that a task marks as global.
    fn sees_globals(&self) -> bool {
        false
    }

    /// Returns the maximum number of keys that a query meets among `tokens` positions, those of earlier segments included.
    fn keys(&self, tokens: usize, causal: bool) -> usize;

    /// Whether each query meets every visible key in one product over its heads. Then keys that a task masks stay masked, and
    /// heads may be wider than values.
    fn sees_every_visible_key(&self) -> bool {
        false
    }

    /// Whether the queries themselves serve as keys, so that keys cannot be computed from other states
    /// ([`LayerContext::sources`]).
    ///
    /// [`LayerContext::sources`]: crate::nn::layer::LayerContext::sources
    fn keys_are_queries(&self) -> bool {
        false
    }

    /// Whether results depend on absolute positions in a row, for example because blocks are counted from its first position. A
    /// packed document is then read differently from the same document by itself.
    fn depends_on_absolute_position(&self) -> bool {
        false
    }

    /// Whether, in inputs of this many tokens, the keys that a query meets depend on all tokens of its row, even on those that it
    /// never sees. A later token may then change the output at an earlier position.
    fn depends_on_whole_row(&self, _tokens: usize) -> bool {
        false
    }

    /// Reports invalid settings and returns the width of a head, if valid; `d_model` is the model's width, if that is valid.
    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize>;

    /// Reports invalid settings in a stack that reads inputs of up to `context` positions, if that is known.
    fn faults_in_context(&self, _context: Option<usize>, _causal: bool, _at: &mut TableFaults) {}

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    fn activations(&self, d_model: usize) -> u128 {
        self.heads().activations(d_model)
    }

    /// Returns the multiplications of a forward pass in a model of width `d_model`; `pairs` are the number of queries, the number
    /// of source positions with keys, and the number of keys that each query meets.
    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        self.heads().products(d_model, pairs)
    }
}

/// Questions that a kind's facts answer.
impl AttentionConfig {
    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        self.facts().kind().kind
    }

    /// Returns the heads with their projections, regardless of which keys they see.
    pub fn heads(&self) -> MultiHeadConfig {
        self.facts().heads()
    }

    /// Returns the same attention with `number` applied to its numbers of query heads and of key and value heads.
    #[must_use]
    pub fn with_heads(&self, number: impl Fn(usize) -> usize) -> Self {
        let heads = self.heads();
        let heads = MultiHeadConfig {
            n_heads: number(heads.n_heads),
            n_kv_heads: heads.n_kv_heads.map(number),
            ..heads
        };
        let mut changed = self.clone();
        changed.facts_mut().set_heads(heads);
        changed
    }

    /// Returns the matching cross-attention: multi-head attention with the same heads if the kind itself cannot attend to a
    /// memory.
    #[must_use]
    pub fn across(&self) -> Self {
        match self.facts().abilities().across {
            true => self.clone(),
            false => Self::MultiHead(self.heads()),
        }
    }

    /// Returns how much the layer remembers of earlier segments, if anything.
    pub fn segments(&self) -> Option<SegmentMemory> {
        self.facts().heads().segments()
    }

    /// Sets the memory in evaluation and decoding to this many positions, if the attention has a memory; returns whether it has
    /// one.
    pub fn set_evaluation_memory(&mut self, positions: usize) -> bool {
        let mut heads = self.heads();
        let remembers = heads.segments().is_some();
        if remembers {
            heads.memory_at_evaluation = Some(positions);
            self.facts_mut().set_heads(heads);
        }
        remembers
    }

    /// Reports invalid settings and returns the width of a head, if valid; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        let facts = self.facts();
        if !facts.abilities().segments && self.segments().is_some() {
            let rule = format!(
                "kind = \"{}\" cannot attend to earlier segments; remove memory, or use multi_head or sliding_window",
                self.kind()
            );
            at.fault(&["memory", "memory_at_evaluation", "kind"], rule);
        }
        if !facts.abilities().sinks {
            facts.heads().sinks.unsupported_fault(self.kind(), at);
        }
        facts.faults(d_model, at)
    }

    /// Reports settings that are invalid in cross-attention.
    pub fn faults_across(&self, d_model: Option<usize>, at: &mut TableFaults) {
        if !self.facts().abilities().across {
            let rule = format!(
                "kind = \"{}\" has no effect in cross-attention, which sees the whole source; use multi_head",
                self.kind()
            );
            at.fault(&["kind"], rule);
        }
        if self.segments().is_some() {
            let rule =
                "memory has no effect in cross-attention, which sees the whole source; remove it";
            at.fault(&["memory", "memory_at_evaluation"], rule);
        }
        self.faults(d_model, at);
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        self.facts().activations(d_model)
    }

    /// Returns how many values per row are kept for the hidden states of earlier segments.
    pub fn segment_memory_activations(&self, d_model: usize) -> u128 {
        self.facts().heads().segment_memory_activations(d_model)
    }

    /// Returns the multiplications of a forward pass over `tokens` positions that see each other, in a model of width `d_model`.
    pub fn products(&self, d_model: usize, tokens: usize, causal: bool) -> u128 {
        let facts = self.facts();
        facts.products(d_model, self.query_key_counts(tokens, causal))
    }

    /// Returns, for `tokens` positions that see each other: the number of queries, the number of positions with keys, and the
    /// maximum number of keys that a query meets.
    pub fn query_key_counts(&self, tokens: usize, causal: bool) -> [usize; 3] {
        let facts = self.facts();
        let sources = tokens.saturating_add(facts.heads().memory);
        [tokens, sources, facts.keys(tokens, causal)]
    }

    /// Returns the number of query heads.
    pub fn n_heads(&self) -> usize {
        self.facts().heads().n_heads
    }

    /// Returns the width of the part of a head that positions act on, in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.facts().d_head(d_model)
    }

    /// Whether the attention supports positions that act on its heads in this way.
    pub fn supports_effect(&self, means: HeadEffect) -> bool {
        self.facts().abilities().positions.contains(&means)
    }
}
