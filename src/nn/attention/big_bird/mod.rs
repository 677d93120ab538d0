//! BigBird's attention over blocks (Zaheer et al. 2020, section 2 and appendix D; HF's `block_sparse`).
//!
//! The n positions form N = ⌈n/b⌉ blocks of b, of which the last may be partial. A query of block i sees the keys of blocks
//! i − 1, i and i + 1 (window), of blocks 0 and N − 1 (global), and of `random` other blocks, drawn for each layer, head and
//! block of queries. Queries of blocks 0 and N − 1 see all keys. HF handles rows 1 and N − 2 separately; their keys are the same
//! union of a window and the global block that it touches. A text of at most 5 + 2·random blocks is read whole, as in HF.
//!
//! n is the length of the row itself, so that padding does not move the global blocks; HF counts the blocks of the padded batch.
//! Random blocks are part of the structure, a function of (`seed`, layer, head, N, i), both in training and in evaluation. HF
//! draws them in training and replaces each of them by another view of block 0 in evaluation. A key counts once, even if several
//! of the three groups contain it. All blocks see the last one, so this attention reads both ways.

mod blocks;

use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionShape, Kind, ReadingDirection};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::init::Init;
use crate::one_table::one_table;
pub use blocks::BlockSparse;
use blocks::max_dense_blocks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "big_bird",
    summary: "each block attends to its neighbours, the first and last block and random blocks; linear in the length",
    source: "Zaheer et al. 2020, section 2",
    example: "{ kind = \"big_bird\", n_heads = 4, block = 64, random = 3 }",
};

/// Settings of BigBird's attention: those of multi-head attention, the size of a block and the random blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct BigBirdConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Positions of a block. Source: Zaheer et al. 2020, section 2.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub block: usize,
    /// Number of random blocks that a query sees. Source: Zaheer et al. 2020, section 2.
    #[schemars(range(max = crate::faults::MAX_POSITIONS))]
    pub random: usize,
    /// Seed of the random blocks; it is part of the model and independent of the run's seed.
    pub seed: u64,
}

impl Default for BigBirdConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            block: 64,
            random: 3,
            seed: 0,
        }
    }
}

one_table!(BigBirdConfig, heads: MultiHeadConfig, |_| &[]);

impl BigBirdConfig {
    /// Builds the attention layer for this shape over these blocks.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> MultiHead {
        let blocks = BlockSparse::drawn(self.block, self.random, self.seed, shape.layer);
        MultiHead::new(&self.heads, shape, init).with_weighing(blocks)
    }
}

impl AttentionFacts for BigBirdConfig {
    fn depends_on_absolute_position(&self) -> bool {
        true
    }

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
            reads: ReadingDirection::Bidirectional,
            prefix: false,
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    /// Returns an upper bound for all queries except those of the two global blocks, which see all keys.
    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        let blocks = tokens.div_ceil(self.block.max(1));
        match blocks <= max_dense_blocks(self.random) {
            true => tokens,
            false => tokens.min((5 + self.random).saturating_mul(self.block)),
        }
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("block", self.block, MAX_POSITIONS);
        if self.random > MAX_POSITIONS {
            let random = self.random;
            let rule = format!("random = {random} is not between 0 and {MAX_POSITIONS}");
            at.fault(&["random"], rule);
        }
        if self.random == 0 && self.seed != 0 {
            let rule =
                "seed has no effect without random blocks; set random to 1 or more, or remove it";
            at.fault(&["seed", "random"], rule);
        }
        self.heads.faults(d_model, at)
    }
}
