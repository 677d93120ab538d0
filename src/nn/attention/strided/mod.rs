//! The strided pattern of the Sparse Transformer (Child et al. 2019, "Generating long sequences with sparse transformers",
//! sections 4.3 and 5.1).
//!
//! With a stride l, query i of some heads sees itself and the l positions before it, i − l ≤ j ≤ i. In the other heads it sees
//! every l-th position up to itself, (i − j) mod l = 0.
//!
//! In these other heads, positions with the same remainder modulo l see only each other. Their queries, keys and values are
//! therefore copied into contiguous runs of T/l positions, and each run is dense causal attention: time grows with T·(l + T/l),
//! with T^1.5 for l near √T. Biases by distance become those of every l-th distance. Decoding reads l + 1 and T/l keys.

mod runs;
mod weighing;

use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionShape, Kind, ReadingDirection};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::init::Init;
use crate::nn::position::HeadEffect;
use crate::one_table::one_table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weighing::Strides;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "strided",
    summary: "some heads see the last positions, the others every stride-th; causal, T^1.5 for stride √T",
    source: "Child et al. 2019, section 5.1",
    example: "{ kind = \"strided\", n_heads = 4, stride = 128 }",
};

/// Settings of the strided pattern: those of multi-head attention, the stride, and which heads see which keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct StridedConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// The stride l; the root of the context when absent. Source: Child et al. 2019, section 4.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    /// Number of heads, counted from the first, that see the last positions; half of them when absent.
    /// Source: Child et al. 2019, section 5.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_heads: Option<usize>,
}

one_table!(StridedConfig, heads: MultiHeadConfig, |_| &[]);

/// Returns the stride for inputs of `context` positions.
pub(super) fn stride_or_root(stride: Option<usize>, context: usize) -> usize {
    let root = || (context as f64).sqrt().round() as usize;
    stride.unwrap_or_else(root).max(1)
}

/// Returns half of the heads, rounded up.
pub(super) fn half(heads: usize) -> usize {
    heads.div_ceil(2)
}

/// Scales the number of first heads in proportion to the number of heads.
pub(super) fn scaled_heads(
    first: Option<usize>,
    from: &MultiHeadConfig,
    to: &MultiHeadConfig,
) -> Option<usize> {
    first.map(|first| (first * to.n_heads).div_ceil(from.n_heads.max(1)))
}

impl StridedConfig {
    /// Returns the pattern for inputs of `context` positions.
    fn strides(&self, context: usize) -> Strides {
        Strides {
            stride: stride_or_root(self.stride, context),
            local: self.local_heads.unwrap_or(half(self.heads.n_heads)),
        }
    }

    /// Builds the attention layer for this shape over these keys.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> MultiHead {
        MultiHead::new(&self.heads, shape, init).with_weighing(self.strides(shape.context))
    }
}

impl AttentionFacts for StridedConfig {
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
            positions: &[HeadEffect::Rotation, HeadEffect::Bias],
            prefix: false,
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    /// Returns the mean over heads.
    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        let Strides { stride, local } = self.strides(tokens);
        let heads = self.heads.n_heads.max(1);
        let local = local.min(heads);
        let last = tokens.min(stride.saturating_add(1));
        (last * local + tokens.div_ceil(stride) * (heads - local)).div_ceil(heads)
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        if let Some(stride) = self.stride {
            at.count("stride", stride, MAX_POSITIONS);
        }
        let heads = self.heads.n_heads;
        if let Some(local) = self.local_heads.filter(|local| *local > heads) {
            let rule = format!("local_heads = {local} is more than n_heads = {heads}");
            at.fault(&["local_heads", "n_heads"], rule);
        }
        self.heads.faults(d_model, at)
    }
}
