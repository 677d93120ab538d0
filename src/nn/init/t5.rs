//! T5's initial weights (Raffel et al. 2020; the initializers of its released code, mesh-tensorflow's `transformer`).
//!
//! Every matrix is normal with variance 1/fan in, so that a product keeps the size of its input: keys and values (d)^−½,
//! the outputs of attention (n_heads·d_head)^−½, feed-forward layers (d)^−½ and (d_ff)^−½. Queries have (d·d_head)^−½: the
//! factor 1/√d_head that T5's scores lack stands in them. Token vectors have a standard deviation of 1, and a table of
//! biases of scores d^−½.

use super::Role;
use crate::faults::TableFaults;
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "t5",
    summary: "normal draws with variance 1/fan in; queries bring the factor that scores lack",
    source: "Raffel et al. 2020, released code",
    example: "{ kind = \"t5\", factor = 1.0 }",
};

/// The knobs of T5's initial weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct T5InitConfig {
    /// Multiplies every standard deviation (`initializer_factor` of Hugging Face's class).
    /// Source: Raffel et al. 2020, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub factor: f64,
    /// Standard deviation of token vectors.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub embedding_std: f64,
    /// Standard deviation of a product onto the vocabulary of its own (T5 1.1, mT5); d^−½ when absent, as the released code
    /// draws it, so that a fresh model's scores are of size 1. Hugging Face's class draws it with 1.
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
    /// Faults of its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        at.positive("factor", self.factor);
        at.positive("embedding_std", self.embedding_std);
        if let Some(std) = self.head_std {
            at.positive("head_std", std);
        }
    }

    /// Standard deviation of a matrix with so many inputs.
    pub(super) fn std(&self, d_in: usize, role: Role) -> f64 {
        let of_width = |width: usize| 1.0 / (width.max(1) as f64).sqrt();
        let std = match role {
            Role::Inner | Role::Input | Role::Value | Role::Residual => of_width(d_in),
            Role::Query { d_head } => of_width(d_in) * of_width(d_head),
            Role::ScoreBias { d_model } => of_width(d_model),
            Role::Embedding => self.embedding_std,
            Role::Head => self.head_std.unwrap_or(of_width(d_in)),
        };
        std * self.factor
    }
}
