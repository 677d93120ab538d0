//! T5's initial weights (Raffel et al. 2020; the initializers of its released code, mesh-tensorflow's `transformer`).
//!
//! Every matrix is normal with variance 1/fan in, so that a product keeps the size of its input: the standard deviation is (d)^−½
//! for keys and values, (n_heads·d_head)^−½ for the outputs of attention, (d)^−½ and (d_ff)^−½ in feed-forward layers. Queries
//! have (d·d_head)^−½, which includes the factor 1/√d_head that T5's scores lack. Token embeddings have a standard deviation of
//! 1, and a table of score biases d^−½.

use super::MatrixRole;
use crate::faults::TableFaults;
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "t5",
    summary: "normal draws with variance 1/fan in; query weights contain the factor that scores lack",
    source: "Raffel et al. 2020, released code",
    example: "{ kind = \"t5\", factor = 1.0 }",
};

/// Settings of T5's initial weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct T5InitConfig {
    /// Factor on every standard deviation (`initializer_factor` of Hugging Face's class).
    /// Source: Raffel et al. 2020, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub factor: f64,
    /// Standard deviation of token embeddings.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub embedding_std: f64,
    /// Standard deviation of an untied LM head (T5 1.1, mT5); d^−½ when absent, as in the released code, so that a fresh model's
    /// logits are of size 1. Hugging Face's class uses 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_std: Option<f64>,
}

impl Default for T5InitConfig {
    fn default() -> Self {
        Self {
            factor: 1.0,
            embedding_std: 1.0,
            head_std: None,
        }
    }
}

impl T5InitConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        at.positive("factor", self.factor);
        at.positive("embedding_std", self.embedding_std);
        if let Some(std) = self.head_std {
            at.positive("head_std", std);
        }
    }

    /// Returns the standard deviation of a matrix with `d_in` inputs.
    pub(super) fn std(&self, d_in: usize, role: MatrixRole) -> f64 {
        let of_width = |width: usize| 1.0 / (width.max(1) as f64).sqrt();
        let std = match role {
            MatrixRole::Inner | MatrixRole::Input | MatrixRole::Value | MatrixRole::Residual => {
                of_width(d_in)
            }
            MatrixRole::Query { d_head } => of_width(d_in) * of_width(d_head),
            MatrixRole::ScoreBias { d_model } => of_width(d_model),
            MatrixRole::Embedding => self.embedding_std,
            MatrixRole::Head => self.head_std.unwrap_or(of_width(d_in)),
        };
        std * self.factor
    }
}
