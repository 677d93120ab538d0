//! Dynamic tanh: γ·tanh(α·x)+β, in the place of a norm (Zhu et al. 2025, Transformers without Normalization, section 4).
//!
//! No statistic of the vector is computed: each element is squashed by itself.

use super::scaled;
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "dynamic_tanh",
    summary: "tanh of each element times a learned number, scale and shift: no norm",
    source: "Zhu et al. 2025, DyT",
    example: "{ kind = \"dynamic_tanh\", alpha = 0.5 }",
};

/// Dynamic tanh's knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicTanhConfig {
    /// α at the start. The language models of the paper multiply embeddings by √d_model first (`embedding_scale = true`) and begin with
    /// less the wider they are. Source: Zhu et al. 2025, sections 4 and 7.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
}

impl Default for DynamicTanhConfig {
    fn default() -> Self {
        Self { alpha: 0.5 }
    }
}

impl DynamicTanhConfig {
    /// Faults of its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("alpha", self.alpha);
    }

    /// What stands in the place of a norm over vectors of `d` elements.
    pub(super) fn init(&self, d: usize, init: &Init) -> DynamicTanh {
        DynamicTanh {
            alpha: init.vector(1, self.alpha as f32),
            gamma: init.vector(d, 1.0),
            beta: init.vector(d, 0.0),
        }
    }
}

/// The roles of the parameters of [`DynamicTanh`].
pub const ROLES: Roles = Roles::new(
    "DynamicTanh",
    &[("alpha", NORM), ("gamma", NORM), ("beta", NORM)],
);

/// α, γ and β of a dynamic tanh.
#[derive(Module, Debug)]
pub struct DynamicTanh {
    /// `[1]`.
    pub alpha: Param<Tensor<1>>,
    /// `[d]`, starts at 1.
    pub gamma: Param<Tensor<1>>,
    /// `[d]`, starts at 0.
    pub beta: Param<Tensor<1>>,
}

impl DynamicTanh {
    /// `[batch, seq, d]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let dtype = x.dtype();
        let [alpha, gamma, beta] =
            [&self.alpha, &self.gamma, &self.beta].map(|vector| vector.val().cast(dtype));
        kernel::dynamic_tanh(x, alpha, gamma, beta)
    }

    /// The same of `factor·x + y`, all three `[batch, seq, d]`.
    pub(super) fn forward_sum(&self, [x, y]: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        self.forward(kernel::add(scaled(x, factor), y))
    }
}
