//! Dynamic tanh: γ·tanh(α·x)+β, in place of a norm (Zhu et al. 2025, Transformers without Normalization, section 4).
//!
//! No statistic of the vector is computed: each element is squashed by itself.

use super::scale_by;
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "dynamic_tanh",
    summary: "tanh of each element times a learned factor, then scale and shift; no normalisation",
    source: "Zhu et al. 2025, DyT",
    example: "{ kind = \"dynamic_tanh\", alpha = 0.5 }",
};

/// Settings of dynamic tanh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicTanhConfig {
    /// Initial α. The language models of the paper multiply embeddings by √d_model first (`embedding_scale = true`) and begin
    /// with a smaller α the wider they are. Source: Zhu et al. 2025, sections 4 and 7.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
}

impl Default for DynamicTanhConfig {
    fn default() -> Self {
        Self { alpha: 0.5 }
    }
}

impl DynamicTanhConfig {
    /// Reports invalid settings.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("alpha", self.alpha);
    }

    /// Builds the replacement of a norm over vectors of `d` elements.
    pub(super) fn init(&self, d: usize, init: &Init) -> DynamicTanh {
        DynamicTanh {
            alpha: init.vector(1, self.alpha as f32),
            gamma: init.vector(d, 1.0),
            beta: init.vector(d, 0.0),
        }
    }
}

/// Roles of the parameters of [`DynamicTanh`].
pub const ROLES: Roles = Roles::new(
    "DynamicTanh",
    &[("alpha", NORM), ("gamma", NORM), ("beta", NORM)],
);

/// Parameters α, γ and β of a dynamic tanh.
#[derive(Module, Debug)]
pub struct DynamicTanh {
    /// α `[1]`.
    pub alpha: Param<Tensor<1>>,
    /// γ `[d]`, initially 1.
    pub gamma: Param<Tensor<1>>,
    /// β `[d]`, initially 0.
    pub beta: Param<Tensor<1>>,
}

impl DynamicTanh {
    /// Applies the function to `[batch, seq, d]`; the shape stays the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let dtype = x.dtype();
        let [alpha, gamma, beta] =
            [&self.alpha, &self.gamma, &self.beta].map(|vector| vector.val().cast(dtype));
        kernel::dynamic_tanh(x, alpha, gamma, beta)
    }

    /// Like [`Self::forward`] for `factor·x + y`; `x`, `y` and the result are `[batch, seq, d]`.
    pub(super) fn forward_of_sum(&self, [x, y]: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        self.forward(kernel::add(scale_by(x, factor), y))
    }
}
