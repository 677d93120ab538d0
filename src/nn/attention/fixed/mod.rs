//! The fixed pattern of the Sparse Transformer (Child et al. 2019, "Generating long sequences with sparse transformers",
//! sections 4.3 and 5.1).
//!
//! With blocks of l positions (`stride`), query i of some heads sees the keys j ≤ i of its own block, ⌊j/l⌋ = ⌊i/l⌋. In the other
//! heads it sees the last c positions of each block (`summary`), j mod l ≥ l − c, which collect the content of their block. With
//! `merged` every head sees both. In the other heads, a query before the first summary sees nothing, and these heads output
//! zeros.
//!
//! Summaries are copied in front of the other keys, so that they are contiguous: a query sees one range of summaries and one of
//! its own block. Tiles outside both are never computed, and time grows with T·(l + c·T/l): with T^1.5 for l near √T and a fixed
//! c. Decoding reads and keeps the summaries and the block of the new position.

mod blocks;
mod state;

use super::multi_head::{MultiHead, MultiHeadConfig};
use super::strided::{half, scaled_heads, stride_or_root};
use super::{Abilities, AttentionFacts, AttentionShape, Kind, ReadingDirection};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::init::Init;
use crate::nn::position::HeadEffect;
use crate::one_table::one_table;
use blocks::FixedBlocks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use state::Summaries;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "fixed",
    summary: "some heads see their block, the others the last positions of every block; causal, T^1.5 for stride √T",
    source: "Child et al. 2019, section 5.1",
    example: "{ kind = \"fixed\", n_heads = 4, stride = 128, summary = 32 }",
};

/// Default number of positions of a summary.
const SUMMARY: usize = 8;

/// Settings of the fixed pattern: those of multi-head attention, blocks and summaries, and which heads see which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct FixedConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Positions l of a block; the root of the context when absent. Source: Child et al. 2019, section 4.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    /// Positions c at the end of each block that all later ones see; 8 when absent (the paper has 8, 16 and 32), or the whole
    /// block if it is shorter. Source: Child et al. 2019, section 4.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<usize>,
    /// Number of heads, counted from the first, that see their own block; half of them when absent.
    /// Source: Child et al. 2019, section 5.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_heads: Option<usize>,
    /// Whether every head sees both its own block and the summaries of earlier blocks.
    /// Source: Child et al. 2019, section 5.1.
    pub merged: bool,
}

one_table!(FixedConfig, heads: MultiHeadConfig, |_| &[]);

impl FixedConfig {
    /// Returns the block layout for inputs of `context` positions.
    fn blocks(&self, context: usize) -> FixedBlocks {
        let stride = stride_or_root(self.stride, context);
        let heads = self.heads.n_heads;
        FixedBlocks {
            stride,
            summary: self.summary.unwrap_or(SUMMARY).min(stride),
            local: self.local_heads.unwrap_or(half(heads)),
            merged: self.merged,
        }
    }

    /// Builds the attention layer for this shape over these keys.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> MultiHead {
        MultiHead::new(&self.heads, shape, init).with_weighing(self.blocks(shape.context))
    }
}

impl AttentionFacts for FixedConfig {
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
        self.local_heads = scaled_heads(self.local_heads, &self.heads, &heads);
        self.heads = heads;
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            reads: ReadingDirection::Causal,
            positions: &[HeadEffect::Rotation],
            prefix: false,
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    /// Returns the mean over heads.
    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        let blocks = self.blocks(tokens);
        let own = tokens.min(blocks.stride);
        let summaries = blocks.summaries(tokens);
        if self.merged {
            return tokens.min(own.saturating_add(summaries));
        }
        let heads = self.heads.n_heads.max(1);
        let local = blocks.local.min(heads);
        (own * local + summaries * (heads - local)).div_ceil(heads)
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        if let Some(stride) = self.stride {
            at.count("stride", stride, MAX_POSITIONS);
        }
        if let Some(summary) = self.summary {
            at.count("summary", summary, MAX_POSITIONS);
        }
        if let (Some(stride), Some(summary)) = (self.stride, self.summary)
            && summary > stride
        {
            let rule = format!(
                "summary = {summary} is more than the positions of a block, stride = {stride}; lower it"
            );
            at.fault(&["summary", "stride"], rule);
        }
        let heads = self.heads.n_heads;
        match self.local_heads {
            Some(local) if self.merged => {
                let rule = format!(
                    "local_heads = {local} has no effect with merged = true, where every head sees both; remove it"
                );
                at.fault(&["local_heads", "merged"], rule);
            }
            Some(local) if local > heads => {
                let rule = format!("local_heads = {local} is more than n_heads = {heads}");
                at.fault(&["local_heads", "n_heads"], rule);
            }
            _ => {}
        }
        if self.summary.is_some() && !self.merged && self.blocks(1).local >= heads {
            let rule = "summary has no effect: local_heads leaves no head that sees summaries; lower local_heads or remove summary";
            at.fault(&["summary", "local_heads"], rule);
        }
        self.heads.faults(d_model, at)
    }

    fn faults_in_context(&self, context: Option<usize>, _causal: bool, at: &mut TableFaults) {
        let (Some(context), None, Some(summary)) = (context, self.stride, self.summary) else {
            return;
        };
        let stride = stride_or_root(None, context);
        if summary > stride {
            let rule = format!(
                "summary = {summary} is more than the {stride} positions of a block, the square root of the context of {context}; \
                 lower it or set stride"
            );
            at.fault(&["summary", "data.context"], rule);
        }
    }
}
