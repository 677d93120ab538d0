//! The two-matrix feed-forward layer W₂·act(W₁x + b₁) + b₂ (Vaswani et al. 2017, section 3.3).

use super::super::init::{Init, MatrixRole};
use super::super::layer::{Layer, LayerContext};
use super::super::linear::Linear;
use super::super::pass::Pass;
use super::{Activation, FeedForwardConfig, Kind, chunked};
use crate::faults::{MAX_WIDTH, TableFaults};
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "dense",
    summary: "two matrices with a nonlinearity between them",
    source: "Vaswani et al. 2017, section 3.3",
    example: "{ kind = \"dense\", activation = \"gelu\", d_ff = 512, bias = true }",
};

/// Settings of a dense feed-forward layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DenseConfig {
    /// Inner width; 4·d_model when absent. Source: Vaswani et al. 2017, section 3.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
    /// The nonlinearity.
    pub activation: Activation,
    /// Whether both maps have biases.
    pub bias: bool,
    /// Number of positions that are computed at once; all of them when absent. Only the inner vectors of one chunk are in memory.
    /// Source: Kitaev et al. 2020, section 3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
}

impl Default for DenseConfig {
    fn default() -> Self {
        Self {
            d_ff: None,
            activation: Activation::Gelu,
            bias: true,
            chunk: None,
        }
    }
}

impl DenseConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("d_ff", self.d_ff.unwrap_or(1), MAX_WIDTH);
        chunked::faults(self.chunk, at);
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        match self.chunk {
            Some(_) => 0,
            None => 2 * self.d_ff(d_model) as u128,
        }
    }

    /// Returns the number of multiplications per position in a forward pass.
    pub fn products(&self, d_model: usize) -> u128 {
        2 * d_model as u128 * self.d_ff(d_model) as u128
    }

    /// Returns the layer's inner width in a model of width `d_model`.
    pub fn d_ff(&self, d_model: usize) -> usize {
        self.d_ff.unwrap_or(4 * d_model)
    }
}

impl From<DenseConfig> for FeedForwardConfig {
    fn from(config: DenseConfig) -> Self {
        Self::Dense(config)
    }
}

impl FeedForwardConfig {
    /// Returns the settings, if this is a dense layer.
    pub fn as_dense(&self) -> Option<&DenseConfig> {
        match self {
            Self::Dense(c) => Some(c),
            Self::Gated(_) | Self::Moe(_) | Self::Rwkv(_) | Self::Rwkv7(_) => None,
        }
    }
}

/// The layer W₂·act(W₁x + b₁) + b₂.
#[derive(Module, Debug)]
pub struct Dense {
    /// W₁, from d_model to d_ff.
    pub up: Linear,
    /// W₂, from d_ff to d_model.
    pub down: Linear,
    #[module(skip)]
    activation: Activation,
    dropout: f64,
    #[module(skip)]
    chunk: Option<usize>,
}

impl Dense {
    /// Builds the layer for vectors of `d_model` elements, with dropout after its nonlinearity.
    pub fn new(config: &DenseConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        let d_ff = config.d_ff(d_model);
        Self {
            up: Linear::new(d_model, d_ff, config.bias, MatrixRole::Value, init),
            down: Linear::new(d_ff, d_model, config.bias, MatrixRole::Residual, init),
            activation: config.activation,
            dropout,
            chunk: config.chunk,
        }
    }

    fn computed(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let inner = self.up.forward_activated(x, self.activation.into());
        self.down
            .forward(pass.dropout(inner, "inner", self.dropout))
    }
}

impl Layer for Dense {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        chunked::in_chunks(self, x, self.chunk, cx.pass, Self::computed)
    }
}
