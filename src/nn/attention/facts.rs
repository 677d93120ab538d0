//! The facts of a kind of attention that checks and plans ask. Each kind says its own, in its own file.

use super::segments::SegmentMemory;
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
    /// What scores are multiplied by beside 1/√d_head, and twice beside a factor that is given; 1 but in μP.
    pub score_factor: f64,
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
            score_factor: 1.0,
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

    /// Whether each query meets every key that it may see in one product over its heads: keys that a task hides stay hidden, and
    /// heads may be wider than values.
    fn meets_all(&self) -> bool {
        false
    }

    /// Whether keys are the queries themselves, so that no keys can be made of other states ([`LayerContext::sources`]).
    ///
    /// [`LayerContext::sources`]: crate::nn::layer::LayerContext::sources
    fn keys_are_queries(&self) -> bool {
        false
    }

    /// Whether results depend on absolute places in a row, because blocks are counted from its first position for example. A packed
    /// document is then read otherwise than the same document alone.
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

/// The questions whose answers follow from a kind's facts.
impl AttentionConfig {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        self.facts().kind().kind
    }

    /// The heads with their projections, whichever keys they see.
    pub fn heads(&self) -> MultiHeadConfig {
        self.facts().heads()
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
        let mut changed = self.clone();
        changed.facts_mut().take_heads(heads);
        changed
    }

    /// The attention to a memory that goes with it: multi-head attention of the same heads where its kind has none.
    #[must_use]
    pub fn across(&self) -> Self {
        match self.facts().abilities().across {
            true => self.clone(),
            false => Self::MultiHead(self.heads()),
        }
    }

    /// How much it remembers of earlier segments, when it does.
    pub fn segments(&self) -> Option<SegmentMemory> {
        self.facts().heads().segments()
    }

    /// Remembers so many positions in evaluation and decoding; whether it remembers any at all.
    pub fn remember_at_evaluation(&mut self, positions: usize) -> bool {
        let mut heads = self.heads();
        let remembers = heads.segments().is_some();
        if remembers {
            heads.memory_at_evaluation = Some(positions);
            self.facts_mut().take_heads(heads);
        }
        remembers
    }

    /// Faults of its keys; `d_model` is the model's width, when that is sound. The width of a head, when it has one.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        let facts = self.facts();
        if !facts.abilities().segments && self.segments().is_some() {
            let rule = format!(
                "kind = \"{}\" cannot look at earlier segments; leave memory out, or use multi_head or sliding_window",
                self.kind()
            );
            at.fault(&["memory", "memory_at_evaluation", "kind"], rule);
        }
        if !facts.abilities().sinks {
            facts.heads().sinks.out_of_place(self.kind(), at);
        }
        facts.faults(d_model, at)
    }

    /// Faults of its keys where it is cross-attention's.
    pub fn faults_across(&self, d_model: Option<usize>, at: &mut TableFaults) {
        if !self.facts().abilities().across {
            let rule = format!(
                "kind = \"{}\" has no effect in cross-attention, which sees the whole source; use multi_head",
                self.kind()
            );
            at.fault(&["kind"], rule);
        }
        if self.segments().is_some() {
            let rule = "memory has no effect in cross-attention, which sees the whole source; leave it out";
            at.fault(&["memory", "memory_at_evaluation"], rule);
        }
        self.faults(d_model, at);
    }

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        self.facts().kept(d_model)
    }

    /// Numbers that are kept of each row for the hidden states of earlier segments.
    pub fn kept_earlier(&self, d_model: usize) -> u128 {
        self.facts().heads().kept_earlier(d_model)
    }

    /// Multiplications of a forward pass over so many positions of a model of width `d_model`, which see each other.
    pub fn products(&self, d_model: usize, tokens: usize, causal: bool) -> u128 {
        let facts = self.facts();
        facts.products(d_model, self.pairs(tokens, causal))
    }

    /// Queries of so many positions which see each other, the positions whose keys they see, and most keys that one meets.
    pub fn pairs(&self, tokens: usize, causal: bool) -> [usize; 3] {
        let facts = self.facts();
        let sources = tokens.saturating_add(facts.heads().memory);
        [tokens, sources, facts.keys(tokens, causal)]
    }

    /// Query heads.
    pub fn n_heads(&self) -> usize {
        self.facts().heads().n_heads
    }

    /// Width of the part of a head that positions act on, in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.facts().d_head(d_model)
    }

    /// Whether positions that act on heads in this way can be carried.
    pub fn carries(&self, means: Means) -> bool {
        self.facts().abilities().positions.contains(&means)
    }
}
