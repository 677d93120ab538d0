//! Local attention over blocks: with blocks of b positions, a query at position i sees the keys of its own block ⌊i/b⌋, of the
//! `look_back` blocks before it and, if its stack reads both ways, of the `look_ahead` blocks after it.
//!
//! With `look_back` = 0 this is the local attention of T-DMCA (Liu et al. 2018, "Generating Wikipedia by summarizing long
//! sequences", section 4.2.3); with 1 it is Reformer's (Kitaev et al. 2020, released code, num_chunks_before and
//! num_chunks_after). Everything else is multi-head attention. Other blocks are never computed, so time and memory grow linearly
//! with the length. In decoding a layer keeps only the keys that a later query may see.

use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionInputs, AttentionShape, KeyWeighing, Kind};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{KeyPattern, Query};
use crate::nn::init::Init;
use crate::nn::layer::LayerContext;
use crate::one_table::one_table;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "local",
    summary: "each position attends to its own and adjacent blocks; time and memory linear in the length",
    source: "Liu et al. 2018, section 4.2.3; Kitaev et al. 2020, released code",
    example: "{ kind = \"local\", n_heads = 4, block = 64, look_back = 1 }",
};

/// Settings of local attention: those of multi-head attention, the size of a block and how many blocks are seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct LocalConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Positions of a block. Source: Liu et al. 2018, section 4.2.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub block: usize,
    /// Number of blocks before its own that a query sees.
    #[schemars(range(max = crate::faults::MAX_POSITIONS))]
    pub look_back: usize,
    /// Number of blocks after its own that a query sees if its stack reads both ways; `look_back` when absent.
    #[schemars(range(max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_ahead: Option<usize>,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            block: 64,
            look_back: 1,
            look_ahead: None,
        }
    }
}

one_table!(LocalConfig, heads: MultiHeadConfig, |_| &[]);

impl LocalConfig {
    /// Returns the blocks that a query of a stack sees.
    fn blocks(&self, causal: bool) -> LocalBlocks {
        let ahead = self.look_ahead.unwrap_or(self.look_back);
        LocalBlocks {
            block: self.block,
            back: self.look_back,
            ahead: if causal { 0 } else { ahead },
        }
    }

    /// Builds the attention layer for this shape over these blocks.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> MultiHead {
        MultiHead::new(&self.heads, shape, init).with_weighing(self.blocks(shape.causal))
    }
}

impl AttentionFacts for LocalConfig {
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
            prefix: false,
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    fn keys(&self, tokens: usize, causal: bool) -> usize {
        let LocalBlocks { block, back, ahead } = self.blocks(causal);
        let blocks = back.saturating_add(ahead).saturating_add(1);
        tokens.min(blocks.saturating_mul(block))
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("block", self.block, MAX_POSITIONS);
        let ahead = self.look_ahead.unwrap_or(0);
        for (key, blocks) in [("look_back", self.look_back), ("look_ahead", ahead)] {
            if blocks > MAX_POSITIONS {
                at.fault(
                    &[key],
                    format!("{key} = {blocks} is not between 0 and {MAX_POSITIONS}"),
                );
            }
        }
        self.heads.faults(d_model, at)
    }

    fn faults_in_context(&self, _context: Option<usize>, causal: bool, at: &mut TableFaults) {
        if let Some(ahead) = self.look_ahead.filter(|_| causal) {
            let rule = format!(
                "look_ahead = {ahead} has no effect in a stack that reads from left to right; remove it"
            );
            at.fault(&["look_ahead"], rule);
        }
    }
}

/// A query's own block and its neighbours.
#[derive(Clone, Copy, Debug)]
struct LocalBlocks {
    block: usize,
    back: usize,
    ahead: usize,
}

impl LocalBlocks {
    /// Returns the range of keys, out of `keys`, that queries at these positions see.
    fn of(self, positions: &Range<usize>, keys: usize) -> Range<usize> {
        let [first, last] = [positions.start, positions.end - 1].map(|at| at / self.block);
        let start = first.saturating_sub(self.back) * self.block;
        let end = last
            .saturating_add(self.ahead + 1)
            .saturating_mul(self.block);
        start.min(keys)..end.min(keys)
    }
}

impl KeyPattern for LocalBlocks {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        see(self.of(&(query.position..query.position + 1), keys));
    }

    fn keys_of_queries(
        &self,
        _: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        see(self.of(&positions, keys));
    }
}

impl KeyWeighing for LocalBlocks {
    fn weigh(&self, attended: AttentionInputs, cx: &mut LayerContext) -> Tensor<4> {
        attended.restricted_to(*self).softmax(cx)
    }

    fn reach(&self) -> Option<usize> {
        let blocks = self.back.saturating_add(1);
        Some(blocks.saturating_mul(self.block).saturating_sub(1))
    }
}
