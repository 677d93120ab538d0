//! The settings of latent attention, and the facts that checks and plans query.

use super::super::multi_head::MultiHeadConfig;
use super::super::{Abilities, AttentionFacts, Kind};
use super::KIND;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::nn::attention::heads::MAX_HEADS;
use crate::nn::norm::NormConfig;
use crate::nn::position::HeadEffect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of latent attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LatentConfig {
    /// Heads. Source: DeepSeek-AI 2024, section 2.1.
    #[schemars(range(min = 1, max = MAX_HEADS))]
    pub n_heads: usize,
    /// Width of the part of a head's queries and keys that has no rotation. Source: DeepSeek-AI 2024, section 2.1.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_nope: usize,
    /// Width of the part that rotary positions rotate; all heads share one key for it. It must be even. Source: DeepSeek-AI 2024,
    /// section 2.1.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_rope: usize,
    /// Width of a head's values. Source: DeepSeek-AI 2024, section 2.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_value: usize,
    /// Width of the latent vector from which keys and values are computed. Source: DeepSeek-AI 2024, section 2.1.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub kv_rank: usize,
    /// Width of the latent vector from which queries are computed; when absent, queries are computed from the input.
    /// Source: DeepSeek-AI 2024, section 2.1.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q_rank: Option<usize>,
    /// Whether the maps from the input to latent vectors and to the shared key, and the output map, have biases. The maps to
    /// heads have none.
    pub bias: bool,
    /// Norm on the latent vectors. Source: DeepSeek-AI 2024, section 3.1.2.
    pub norm: NormConfig,
    /// Factor on the scores; 1/√(d_nope + d_rope) when absent. Source: DeepSeek-AI 2024, equation 17.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
}

impl Default for LatentConfig {
    fn default() -> Self {
        Self {
            n_heads: 4,
            d_nope: 32,
            d_rope: 16,
            d_value: 32,
            kv_rank: 64,
            q_rank: None,
            bias: false,
            norm: NormConfig::rms(),
            scale: None,
        }
    }
}

impl LatentConfig {
    /// Returns the width of a head's queries and keys.
    pub fn d_key(&self) -> usize {
        self.d_nope.saturating_add(self.d_rope)
    }

    /// Returns the factor on the scores.
    pub(super) fn scale(&self) -> f64 {
        self.scale.unwrap_or(1.0 / (self.d_key() as f64).sqrt())
    }

    /// Returns the widths over all heads: keys without the rotated part, the rotated part, values.
    fn widths(&self) -> [u128; 3] {
        [self.d_nope, self.d_rope, self.d_value].map(|width| (self.n_heads * width) as u128)
    }
}

impl AttentionFacts for LatentConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    /// Returns multi-head settings whose queries and keys have the same width.
    fn heads(&self) -> MultiHeadConfig {
        MultiHeadConfig {
            n_heads: self.n_heads,
            d_head: Some(self.d_key()),
            bias: self.bias,
            scale: self.scale,
            ..MultiHeadConfig::default()
        }
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        self.n_heads = heads.n_heads;
    }

    fn d_head(&self, _d_model: usize) -> usize {
        self.d_rope
    }

    /// Vectors of distances would need maps from the input to each head's queries and keys, which this kind does not have.
    fn abilities(&self) -> Abilities {
        Abilities {
            positions: &[HeadEffect::Rotation, HeadEffect::Bias],
            rotated_values: false,
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        tokens
    }

    fn faults(&self, _d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("n_heads", self.n_heads, MAX_HEADS);
        for (key, width) in [
            ("d_nope", self.d_nope),
            ("d_value", self.d_value),
            ("kv_rank", self.kv_rank),
            ("q_rank", self.q_rank.unwrap_or(1)),
        ] {
            at.count(key, width, MAX_WIDTH);
        }
        at.nested("norm", |at| self.norm.faults(at));
        if let Some(scale) = self.scale {
            at.positive("scale", scale);
        }
        let counted = at.count("d_rope", self.d_rope, MAX_WIDTH);
        let even = self.d_rope.is_multiple_of(2);
        if counted && !even {
            let rule = format!(
                "d_rope = {} is odd, but positions rotate pairs of these elements; make it even",
                self.d_rope
            );
            at.fault(&["d_rope"], rule);
        }
        (counted && even).then_some(self.d_rope)
    }

    /// Queries, keys, values and results by heads, all padded to the width that the kernel needs, and the latent vectors before
    /// and after their norms.
    fn activations(&self, _d_model: usize) -> u128 {
        let width = self.d_key().max(self.d_value) as u128;
        let narrow = self.kv_rank as u128 + self.q_rank.unwrap_or(0) as u128;
        4 * self.n_heads as u128 * width + 2 * narrow + self.d_rope as u128
    }

    /// Counts as in training, where keys and values are computed for each head. Products with the zeros that pad the narrower of
    /// keys and values are not counted.
    fn products(&self, d_model: usize, [queries, sources, keys]: [usize; 3]) -> u128 {
        let [d_model, queries, sources, keys] =
            [d_model, queries, sources, keys].map(|n| n as u128);
        let [nope, rope, value] = self.widths();
        let rank = self.kv_rank as u128;
        let of_query = match self.q_rank {
            Some(rank) => rank as u128 * (d_model + nope + rope),
            None => d_model * (nope + rope),
        };
        let of_source = d_model * (rank + self.d_rope as u128) + rank * (nope + value);
        let of_pair = nope + rope + value;
        queries * (of_query + value * d_model) + sources * of_source + queries * keys * of_pair
    }
}
