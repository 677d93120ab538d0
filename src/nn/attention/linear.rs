//! Linear attention: y_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / (φ(q_i) Σ_j φ(k_j)) with φ(x) = elu(x) + 1, over all keys, or those up to
//! the query (Katharopoulos et al. 2020, arXiv:2006.16236, sections 3.2 and 3.3).
//!
//! Time and memory grow linearly with the length, and decoding a token costs the same however long the text is. Rotary positions
//! on heads are rejected: φ of a rotated vector depends on both absolute positions, not only on their distance, and rotating φ(x)
//! itself, as RoFormer's section 3.3 does in the numerator only, gives weights that do not sum to 1. Performer's features respect
//! rotations exactly, in expectation.

use super::featured::{self, FeatureSource, Featured};
use super::multi_head::MultiHeadConfig;
use super::{Abilities, AttentionFacts, AttentionShape, Kind};
use crate::faults::TableFaults;
use crate::kernel::linear_attention::Features;
use crate::nn::init::Init;
use crate::one_table::one_table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "linear",
    summary: "products of elu(x) + 1 instead of a softmax; linear time and memory, decoding at constant cost",
    source: "Katharopoulos et al. 2020, sections 3.2 and 3.3",
    example: "{ kind = \"linear\", n_heads = 4 }",
};

/// Settings of linear attention: those of multi-head attention that act before or after the weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct LinearConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
}

one_table!(LinearConfig, heads: MultiHeadConfig, |_| &[]);

impl LinearConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Featured {
        Featured::new(
            &self.heads,
            shape,
            init,
            FeatureSource::Plain(Features::Elu),
        )
    }
}

impl AttentionFacts for LinearConfig {
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
        featured::abilities(&[])
    }

    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        tokens
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        if let Some(scale) = self.heads.scale {
            let rule = format!(
                "scale = {scale:?} has no effect on kind = \"linear\": a factor of all products of features cancels; remove it"
            );
            at.fault(&["scale", "kind"], rule);
        }
        featured::faults(&self.heads, KIND.kind, d_model, at)
    }

    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        let d = self.heads.d_head(d_model) as u128;
        featured::products(&self.heads, d_model, pairs, d * d)
    }
}
