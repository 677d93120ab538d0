//! The gated feed-forward layer W₂(act(W₁x)⊙W₃x) (Shazeer 2020): SwiGLU with silu, GEGLU with gelu, GLU with sigmoid.
//!
//! Both branches may be clamped and an offset added to the linear one (OpenAI 2025, gpt-oss): act(min(W₁x, c))⊙(clamp(W₃x,
//! ±c) + b).

use super::super::init::{Init, MatrixRole};
use super::super::layer::{Layer, LayerContext};
use super::super::linear::Linear;
use super::super::pass::Pass;
use super::{Activation, Kind, chunked};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel;
use crate::one_table::is_usual;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "gated",
    summary: "a nonlinear gate times a linear branch, then an output matrix",
    source: "Shazeer 2020",
    example: "{ kind = \"gated\", activation = \"silu\", d_ff = 344 }",
};

/// Settings of a gated feed-forward layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatedConfig {
    /// Inner width; 8/3·d_model rounded up to a multiple of 8 when absent (equal parameters to a dense one).
    /// Source: Shazeer 2020, section 2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
    /// The gate's nonlinearity. Source: Shazeer 2020, section 2.
    pub activation: Activation,
    /// Whether the three maps have biases.
    pub bias: bool,
    /// Limit c on both branches: the gate is cut above c before the nonlinearity, the linear branch is clamped to ±c; no limit
    /// when absent. Source: OpenAI 2025, gpt-oss model card, section 2.1, and released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamp: Option<f64>,
    /// Added to the linear branch: with 1, only the gate passes where that branch is 0. Source: OpenAI 2025, gpt-oss, released
    /// code.
    #[serde(skip_serializing_if = "is_usual")]
    pub linear_offset: f64,
    /// Number of positions that are computed at once; all of them when absent. Only the inner vectors of one chunk are in memory.
    /// Source: Kitaev et al. 2020, section 3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
}

impl Default for GatedConfig {
    fn default() -> Self {
        Self {
            d_ff: None,
            activation: Activation::Silu,
            bias: false,
            clamp: None,
            linear_offset: 0.0,
            chunk: None,
        }
    }
}

impl GatedConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("d_ff", self.d_ff.unwrap_or(1), MAX_WIDTH);
        if let Some(clamp) = self.clamp {
            at.positive("clamp", clamp);
        }
        if !self.linear_offset.is_finite() {
            let rule = format!(
                "linear_offset = {:?} must be a finite number",
                self.linear_offset
            );
            at.fault(&["linear_offset"], rule);
        }
        chunked::faults(self.chunk, at);
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        match self.chunk {
            Some(_) => 0,
            None => {
                let clamped = u128::from(self.clamp.is_some());
                (2 + 2 * clamped) * self.d_ff(d_model) as u128
            }
        }
    }

    /// Returns the operation on the two branches.
    pub(super) fn product(&self) -> GatedProduct {
        GatedProduct {
            activation: self.activation,
            clamp: self.clamp,
            linear_offset: self.linear_offset,
        }
    }

    /// Returns the number of multiplications per position in a forward pass.
    pub fn products(&self, d_model: usize) -> u128 {
        3 * d_model as u128 * self.d_ff(d_model) as u128
    }

    /// Returns the layer's inner width in a model of width `d_model`.
    pub fn d_ff(&self, d_model: usize) -> usize {
        self.d_ff
            .unwrap_or((8 * d_model).div_ceil(3).next_multiple_of(8))
    }
}

/// The operation that combines the two branches.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedProduct {
    activation: Activation,
    clamp: Option<f64>,
    linear_offset: f64,
}

impl GatedProduct {
    /// Clamps both branches, `[batch, seq, d_ff]`, and returns act(gate)⊙up.
    pub fn apply(self, mut gate: Tensor<3>, mut up: Tensor<3>) -> Tensor<3> {
        if let Some(clamp) = self.clamp {
            gate = gate.clamp_max(clamp);
            up = up.clamp(-clamp, clamp);
        }
        if self.linear_offset != 0.0 {
            up = up + self.linear_offset;
        }
        kernel::gated(gate, up, self.activation.into())
    }
}

/// The layer W₂(act(W₁x)⊙W₃x).
#[derive(Module, Debug)]
pub struct Gated {
    /// W₁, from d_model to d_ff.
    pub gate: Linear,
    /// W₃, from d_model to d_ff.
    pub up: Linear,
    /// W₂, from d_ff to d_model.
    pub down: Linear,
    #[module(skip)]
    product: GatedProduct,
    dropout: f64,
    #[module(skip)]
    chunk: Option<usize>,
}

impl Gated {
    /// Builds the layer for vectors of `d_model` elements, with dropout after its nonlinearity.
    pub fn new(config: &GatedConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        let d_ff = config.d_ff(d_model);
        Self {
            gate: Linear::new(d_model, d_ff, config.bias, MatrixRole::Value, init),
            up: Linear::new(d_model, d_ff, config.bias, MatrixRole::Value, init),
            down: Linear::new(d_ff, d_model, config.bias, MatrixRole::Residual, init),
            product: config.product(),
            dropout,
            chunk: config.chunk,
        }
    }

    fn computed(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = kernel::Operand::new(x);
        let gate = self.gate.forward_operand(x.clone());
        let up = self.up.forward_operand(x);
        let inner = self.product.apply(gate, up);
        self.down
            .forward(pass.dropout(inner, "inner", self.dropout))
    }
}

impl Layer for Gated {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        chunked::in_chunks(self, x, self.chunk, cx.pass, Self::computed)
    }
}
