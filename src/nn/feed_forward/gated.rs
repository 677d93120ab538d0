//! The gated feed-forward layer W₂(act(W₁x)⊙W₃x) (Shazeer 2020): SwiGLU with silu, GEGLU with gelu.

use super::super::init::{Init, Role};
use super::super::layer::{Layer, LayerContext};
use super::super::linear::Linear;
use super::super::pass::Pass;
use super::{Activation, Kind, chunked};
use crate::faults::{TableFaults, WIDEST};
use crate::kernel;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "gated",
    summary: "a nonlinear gate times a linear branch, then a matrix back",
    source: "Shazeer 2020",
    example: "{ kind = \"gated\", activation = \"silu\", d_ff = 344 }",
};

/// The knobs of a gated feed-forward layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatedConfig {
    /// Inner width; 8/3·d_model rounded up to a multiple of 8 when absent (equal parameters to a dense one).
    /// Source: Shazeer 2020, section 2.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
    /// The gate's nonlinearity. Source: Shazeer 2020, section 2.
    pub activation: Activation,
    /// Whether the three maps have biases.
    pub bias: bool,
    /// Positions that are computed at once; all of them when absent. The inner vectors of one chunk alone are in memory.
    /// Source: Kitaev et al. 2020, section 3.
    #[schemars(range(min = 1, max = crate::faults::LONGEST))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
}

impl Default for GatedConfig {
    fn default() -> Self {
        Self {
            d_ff: None,
            activation: Activation::Silu,
            bias: false,
            chunk: None,
        }
    }
}

impl GatedConfig {
    /// Faults of its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("d_ff", self.d_ff.unwrap_or(1), WIDEST);
        chunked::faults(self.chunk, at);
    }

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        match self.chunk {
            Some(_) => 0,
            None => 2 * self.d_ff(d_model) as u128,
        }
    }

    /// Multiplications of a forward pass for each position.
    pub fn products(&self, d_model: usize) -> u128 {
        3 * d_model as u128 * self.d_ff(d_model) as u128
    }

    /// The inner width for vectors of `d_model` elements.
    pub fn d_ff(&self, d_model: usize) -> usize {
        self.d_ff
            .unwrap_or((8 * d_model).div_ceil(3).next_multiple_of(8))
    }
}

/// W₂(act(W₁x)⊙W₃x).
#[derive(Module, Debug)]
pub struct Gated {
    /// W₁ `[d_model, d_ff]`.
    pub gate: Linear,
    /// W₃ `[d_model, d_ff]`.
    pub up: Linear,
    /// W₂ `[d_ff, d_model]`.
    pub down: Linear,
    #[module(skip)]
    activation: Activation,
    dropout: f64,
    #[module(skip)]
    chunk: Option<usize>,
}

impl Gated {
    /// The layer for vectors of `d_model` elements, with dropout after its nonlinearity.
    pub fn new(config: &GatedConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        let d_ff = config.d_ff(d_model);
        Self {
            gate: Linear::new(d_model, d_ff, config.bias, Role::Value, init),
            up: Linear::new(d_model, d_ff, config.bias, Role::Value, init),
            down: Linear::new(d_ff, d_model, config.bias, Role::Residual, init),
            activation: config.activation,
            dropout,
            chunk: config.chunk,
        }
    }

    fn computed(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = kernel::Operand::new(x);
        let gate = self.gate.of(x.clone());
        let up = self.up.of(x);
        let inner = kernel::gated(gate, up, self.activation.into());
        self.down
            .forward(pass.dropout(inner, "inner", self.dropout))
    }
}

impl Layer for Gated {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        chunked::in_chunks(self, x, self.chunk, cx.pass, Self::computed)
    }
}
