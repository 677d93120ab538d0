//! LSH attention, by locality-sensitive hashing (Kitaev et al. 2020, Reformer, section 2): a query attends, approximately, to the
//! keys in its own bucket.
//!
//! Queries and keys come from one projection, with keys scaled to unit length, so that a query is near the keys with the largest
//! scores. A round of hashing multiplies queries by a random matrix R; the bucket is `argmax [xR; −xR]`. Positions are sorted by
//! bucket and cut into chunks, each of which attends to itself and to the `look_back` chunks before it (`kernel::sorted_chunks`).
//! Time grows with `T·rounds·chunk` (and T log T for the sorting, reduced to T by a counting sort). Several rounds make misses
//! rare; their results form one softmax over the keys of all rounds. No query sees itself, unless it sees nothing else. Inputs
//! that fit in one chunk are seen whole: plain softmax attention with shared queries and keys.
//!
//! Sorting involves all tokens of a row. In a causal stack no query sees a later key, but a later token moves the borders of
//! chunks, and with them the earlier keys that a query meets (as in the released code and in Hugging Face's). Beyond `chunk`
//! tokens, the outputs at earlier positions are therefore only nearly independent of later tokens: a decoder that reads a text
//! token by token meets, for each token, the keys that sorting yields at that time.

mod hashing;
mod layer;
mod state;
mod weights;

use super::multi_head::MultiHeadConfig;
use super::{Abilities, AttentionFacts, AttentionShape, Kind, ReadingDirection};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::init::Init;
use crate::nn::position::HeadEffect;
use crate::one_table::one_table;
pub use hashing::HashRotations;
pub use layer::Lsh;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use state::HashedKeys;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "lsh",
    summary: "each position attends to its hash bucket, in sorted chunks; queries are keys; time nearly linear",
    source: "Kitaev et al. 2020, section 2",
    example: "{ kind = \"lsh\", n_heads = 4, rounds = 4, chunk = 64 }",
};

/// Maximum number of rounds, and of chunks on one side.
const MAX_ROUNDS: usize = 64;

/// Maximum number of buckets.
const MAX_BUCKETS: usize = 1 << 24;

/// Settings of LSH attention: the supported settings of multi-head attention, and those of buckets and chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct LshConfig {
    /// The heads: their number and width, and which projections have biases.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Number of hashing rounds. Source: Kitaev et al. 2020, section 2.
    #[schemars(range(min = 1, max = MAX_ROUNDS))]
    pub rounds: usize,
    /// Number of buckets: one even number, or its even factors, whose hashes are drawn separately. When absent, it follows the
    /// length: a power of two, with one to two buckets per chunk, in two factors if that is many. Source: Kitaev et al. 2020,
    /// section 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<usize>>,
    /// Positions of a chunk. Source: Kitaev et al. 2020, section 2.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub chunk: usize,
    /// Number of chunks before its own that a position attends to.
    #[schemars(range(max = MAX_ROUNDS))]
    pub look_back: usize,
    /// Number of chunks after its own that a position attends to.
    #[schemars(range(max = MAX_ROUNDS))]
    pub look_ahead: usize,
    /// Whether each training step draws its own rotations; otherwise all steps use those of evaluation.
    pub redraw: bool,
}

impl Default for LshConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            rounds: 4,
            buckets: None,
            chunk: 64,
            look_back: 1,
            look_ahead: 0,
            redraw: true,
        }
    }
}

one_table!(LshConfig, heads: MultiHeadConfig, |_| &[]);

impl LshConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Lsh {
        Lsh::new(self, shape, init)
    }

    /// Returns the factors of the number of buckets for inputs of `tokens` tokens, in a model whose longest inputs have
    /// `context`.
    pub fn factors(&self, tokens: usize, context: usize) -> Vec<usize> {
        if let Some(buckets) = &self.buckets {
            return buckets.clone();
        }
        let chunk = self.chunk.max(1);
        let power = (2 * tokens.div_ceil(chunk)).max(2).ilog2();
        let root = (context / chunk).isqrt();
        if 1 << power <= 2 * root.max(chunk) {
            return vec![1 << power];
        }
        vec![1 << (power / 2), 1 << (power - power / 2)]
    }

    /// Returns the number of slots that a position attends to in all rounds.
    fn slots_attended(&self) -> usize {
        let window = self
            .chunk
            .saturating_mul(self.look_back + 1 + self.look_ahead);
        window.saturating_mul(self.rounds)
    }

    fn bucket_faults(&self, buckets: &[usize], at: &mut TableFaults) {
        let odd = buckets.iter().find(|n| **n == 0 || !n.is_multiple_of(2));
        if let Some(odd) = odd {
            let rule = format!(
                "buckets contains {odd}; each factor must be even, since a rotation produces a bucket and its opposite"
            );
            at.fault(&["buckets"], rule);
        }
        let all = buckets
            .iter()
            .fold(1, |all: usize, n| all.saturating_mul(*n));
        if buckets.is_empty() || all > MAX_BUCKETS {
            let rule = format!(
                "buckets = {buckets:?} makes {all} buckets; give one number or its factors, up to {MAX_BUCKETS}; remove it to \
                 follow the length"
            );
            at.fault(&["buckets"], rule);
        }
    }

    /// Reports settings of multi-head attention that this kind does not support.
    fn heads_faults(&self, at: &mut TableFaults) {
        let (heads, plain) = (&self.heads, MultiHeadConfig::default());
        for (key, given, why) in [
            (
                "n_kv_heads",
                heads.n_kv_heads.is_some(),
                "queries are keys, with the same heads",
            ),
            ("key_bias", heads.key_bias.is_some(), "queries are keys"),
            (
                "qk_norm",
                heads.qk_norm != plain.qk_norm,
                "keys have unit length, and queries keep their own length",
            ),
            (
                "softcap",
                heads.softcap.is_some(),
                "its scores are not capped",
            ),
            (
                "scale",
                heads.scale.is_some(),
                "keys have unit length, and scores have no other factor",
            ),
            (
                "head_diversity",
                heads.head_diversity != plain.head_diversity,
                "it has no diversity loss for heads",
            ),
            ("gate", heads.gate.is_some(), "its results are not gated"),
        ] {
            if given {
                let rule = format!("{key} has no effect on kind = \"lsh\": {why}; remove it");
                at.fault(&[key, "kind"], rule);
            }
        }
    }
}

impl AttentionFacts for LshConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        self.heads = heads;
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            reads: ReadingDirection::Either,
            positions: &[HeadEffect::Rotation],
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    fn keys_are_queries(&self) -> bool {
        true
    }

    fn depends_on_whole_row(&self, tokens: usize) -> bool {
        tokens > self.chunk
    }

    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        match self.depends_on_whole_row(tokens) {
            true => self.slots_attended(),
            false => tokens,
        }
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("rounds", self.rounds, MAX_ROUNDS);
        at.count("chunk", self.chunk, MAX_POSITIONS);
        for (key, chunks) in [
            ("look_back", self.look_back),
            ("look_ahead", self.look_ahead),
        ] {
            if chunks > MAX_ROUNDS {
                at.fault(
                    &[key],
                    format!("{key} = {chunks} is not between 0 and {MAX_ROUNDS}"),
                );
            }
        }
        if let Some(buckets) = &self.buckets {
            self.bucket_faults(buckets, at);
        }
        self.heads_faults(at);
        self.heads.faults(d_model, at)
    }

    /// Queries, their keys, values and the result; the sorted order and each query's maximum and sum.
    fn activations(&self, d_model: usize) -> u128 {
        let width = (self.heads.n_heads * self.heads.d_head(d_model)) as u128;
        4 * width + (self.heads.n_heads * (self.rounds + 2)) as u128
    }

    /// Counts three projections, the hashes, scores and weighted values.
    fn products(&self, d_model: usize, [queries, _, keys]: [usize; 3]) -> u128 {
        let heads = self.heads.n_heads as u128;
        let head = self.heads.d_head(d_model) as u128;
        let (d_model, positions, keys) = (d_model as u128, queries as u128, keys as u128);
        let hashes = match self.depends_on_whole_row(queries) {
            true => {
                let rotations: usize = self.factors(queries, queries).iter().sum();
                (rotations / 2 * self.rounds) as u128
            }
            false => 0,
        };
        positions * heads * head * (3 * d_model + hashes + 2 * keys)
    }
}
