//! Gated attention: heads' results times σ(W_G x) of the query's position, before the output projection (Qiu et al. 2025, "Gated
//! attention for large language models", arXiv:2505.06708, section 2.2, position G1).

use crate::kernel;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Granularity of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// One value for each element of each head.
    Elementwise,
    /// One value for each head.
    Headwise,
}

impl Gate {
    /// Returns the width of a position's gate for `[heads, width of a head]`.
    pub(in crate::nn::attention) fn width(self, [heads, d_head]: [usize; 2]) -> usize {
        match self {
            Self::Elementwise => heads * d_head,
            Self::Headwise => heads,
        }
    }

    /// Builds the map W_G; its random draws are independent of all other maps'.
    pub(super) fn init(self, d_model: usize, heads: [usize; 2], bias: bool, init: &Init) -> Linear {
        let width = self.width(heads);
        Linear::new(d_model, width, bias, MatrixRole::Inner, &init.part("gate"))
    }
}

/// Multiplies results `[batch, seq, heads·d_head]` by the gate of `x` `[batch, seq, d_model]`.
pub(super) fn apply_gate(y: Tensor<3>, gate: &Linear, x: Tensor<3>, heads: usize) -> Tensor<3> {
    let gate = gate.forward(x);
    let [batch, seq, width] = y.dims();
    if gate.dims()[2] == width {
        return kernel::gated(gate, y, kernel::Activation::Sigmoid);
    }
    let share = sigmoid(gate).reshape([batch, seq, heads, 1]);
    let y = y.reshape([batch, seq, heads, width / heads]) * share;
    y.reshape([batch, seq, width])
}
