//! The facts of a kind of attention that checks and plans ask. Each kind says its own, in its own file.

use super::{AttentionConfig, MultiHeadConfig};
use crate::faults::TableFaults;
use crate::kind::Kind;
use crate::nn::position::Means;

/// The sizes that an attention is built from.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Width of the vectors that it reads and gives.
    pub d_model: usize,
    /// Width of the vectors that keys and values are made of: another one in attention to a memory of another network.
    pub d_memory: usize,
    /// Dropout on its weights.
    pub dropout: f64,
    /// Positions of the longest input.
    pub context: usize,
    /// Whether its stack reads from left to right.
    pub causal: bool,
    /// Number of its block in the stack, from 0.
    pub layer: usize,
    /// That of the first block whose attention has the same keys: parameters of all of these layers stand there.
    pub lender: usize,
}

impl AttentionShape {
    /// Attention outside of a stack: the first layer of a network that reads both ways.
    pub fn alone(d_model: usize, context: usize) -> Self {
        Self {
            d_model,
            d_memory: d_model,
            dropout: 0.0,
            context,
            causal: false,
            layer: 0,
            lender: 0,
        }
    }
}

/// The order in which a kind can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A query may see later keys or not, as its stack says.
    EitherWay,
    /// Every query sees keys on both sides: it cannot be causal.
    BothWays,
    /// No query sees a later key.
    LeftToRight,
}

/// The surroundings that a kind can stand in.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// The order in which it reads.
    pub reads: Reads,
    /// The ways in which positions may act on its heads.
    pub positions: &'static [Means],
    /// Whether a rotation can turn values as it turns keys.
    pub turned_values: bool,
    /// Whether documents of one row can be hidden from each other.
    pub documents: bool,
    /// Whether the source of a prefix language model can see all of itself.
    pub prefix: bool,
    /// Whether it can look at hidden states of earlier segments.
    pub segments: bool,
    /// Whether it can look at a memory, as cross-attention.
    pub across: bool,
    /// Whether it makes a weight for each query and key that it looks at: dropout, entropies and records act on those.
    pub weights: bool,
    /// Whether scores of heads may stand beside those of keys.
    pub sinks: bool,
}

impl Abilities {
    /// Those of dot products over keys that are seen or hidden.
    pub const ALL: Self = Self {
        reads: Reads::EitherWay,
        positions: &[Means::Rotation, Means::Bias, Means::Vectors],
        turned_values: true,
        documents: true,
        prefix: true,
        segments: true,
        across: true,
        weights: true,
        sinks: false,
    };
}

/// The facts of a kind; each default is that of dot products over all keys.
pub trait AttentionFacts {
    /// Its row of the family's table.
    fn kind(&self) -> Kind;

    /// The heads with their projections, whichever keys they see; of a kind with other projections those of multi-head
    /// attention that are most like it.
    fn heads(&self) -> MultiHeadConfig;

    /// Takes other heads, fewer or narrower ones: keys that have one number for each head are adapted.
    fn take_heads(&mut self, heads: MultiHeadConfig);

    /// Width of the part of a head that positions act on, in a model of width `d_model`.
    fn d_head(&self, d_model: usize) -> usize {
        self.heads().d_head(d_model)
    }

    /// The surroundings that it can stand in.
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    /// Whether it sees the tokens that a task marks as global.
    fn sees_globals(&self) -> bool {
        false
    }

    /// Most keys that a query of `tokens` positions meets, those of earlier segments included.
    fn keys(&self, tokens: usize, causal: bool) -> usize;

    /// Whether keys are the queries themselves, so that no keys can be made of other states ([`LayerContext::sources`]).
    ///
    /// [`LayerContext::sources`]: crate::nn::layer::LayerContext::sources
    fn keys_are_queries(&self) -> bool {
        false
    }

    /// Whether its numbers depend on places in a row, blocks that are counted from the row's first position say: a document
    /// that begins elsewhere in the row is then read otherwise than alone.
    fn counts_from_row(&self) -> bool {
        false
    }

    /// Whether in inputs of so many tokens the keys that a query meets depend on all tokens of its row, those that it never
    /// sees included: a later token may then change what an earlier position gives.
    fn regroups(&self, _tokens: usize) -> bool {
        false
    }

    /// Faults of its keys; `d_model` is the model's width, when that is sound. The width of a head, when it has one.
    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize>;

    /// Faults of its keys in a stack that reads inputs of up to so many positions, where that is known.
    fn faults_within(&self, _context: Option<usize>, _causal: bool, _at: &mut TableFaults) {}

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    fn kept(&self, d_model: usize) -> u128 {
        self.heads().kept(d_model)
    }

    /// Multiplications of a forward pass in a model of width `d_model`: so many queries over the keys of `sources` positions,
    /// of which each meets `keys`.
    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        self.heads().products(d_model, pairs)
    }
}

impl AttentionConfig {
    /// Whether positions that act on heads in this way can be carried.
    pub fn carries(&self, means: Means) -> bool {
        self.facts().abilities().positions.contains(&means)
    }
}
