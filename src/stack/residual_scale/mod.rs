//! Learned scales of residual connections: each layer's result is multiplied by them before it joins the stream, or the stream
//! before the result joins it.
//!
//! x + λ·f(LN(x)), with λ a number for each channel (layer scale) or one number (ReZero). A λ that starts near 0 begins every
//! block as the identity, so that depth is learned. LN(ω∘x + f(x)) with a large ω (Admin) does so where norms stand behind the sum.

pub mod admin;
pub mod layer_scale;
pub mod rezero;

use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use admin::{AdminConfig, SkipScale};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use layer_scale::LayerScaleConfig;
use rezero::RezeroConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of `[model] residual_scale`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "none",
        summary: "results join the stream as they are",
        source: "Vaswani et al. 2017",
        example: "{ kind = \"none\" }",
    },
    layer_scale::KIND,
    rezero::KIND,
    admin::KIND,
];

/// By what a layer's result is multiplied before it joins the stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ResidualScaleConfig {
    /// By nothing.
    None(NotScaled),
    /// By a number for each channel.
    LayerScale(LayerScaleConfig),
    /// By one number.
    Rezero(RezeroConfig),
    /// By nothing; the stream by a number for each channel.
    Admin(AdminConfig),
}

/// No keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotScaled {}

impl Default for ResidualScaleConfig {
    fn default() -> Self {
        Self::None(NotScaled {})
    }
}

impl ResidualScaleConfig {
    /// Whether results join the stream as they are.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }

    /// Faults of its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::None(_) => {}
            Self::LayerScale(c) => c.faults(at),
            Self::Rezero(c) => c.faults(at),
            Self::Admin(c) => c.faults(at),
        }
    }

    /// Examples that its numbers are measured on before the first step, where they are.
    pub fn measured_on(&self) -> Option<usize> {
        match self {
            Self::None(_) | Self::LayerScale(_) | Self::Rezero(_) => None,
            Self::Admin(c) => Some(c.examples),
        }
    }

    /// Whether it scales the stream that a norm behind the sum reads, so that it needs one there and a number of each connection's own.
    pub fn scales_skips(&self) -> bool {
        match self {
            Self::None(_) | Self::LayerScale(_) | Self::Rezero(_) => false,
            Self::Admin(_) => true,
        }
    }

    /// The scale of the stream of one connection over vectors of `d_model` elements, where there is one.
    pub(super) fn skip(&self, d_model: usize, init: &Init) -> Option<SkipScale> {
        self.scales_skips().then(|| SkipScale::new(d_model, init))
    }

    /// The scale of one result over vectors of `d_model` elements, where there is one.
    pub(super) fn init(&self, d_model: usize, init: &Init) -> Option<ResidualScale> {
        let (length, value) = match self {
            Self::None(_) | Self::Admin(_) => return None,
            Self::LayerScale(c) => (d_model, c.init),
            Self::Rezero(c) => (1, c.init),
        };
        Some(ResidualScale {
            gain: init.vector(length, value as f32),
        })
    }
}

/// The roles of the parameters of [`ResidualScale`].
pub const ROLES: Roles = Roles::new("ResidualScale", &[("gain", NORM)]);

/// The scale of one layer's results.
#[derive(Module, Debug)]
pub struct ResidualScale {
    /// `[d_model]`, or `[1]`.
    pub gain: Param<Tensor<1>>,
}

impl ResidualScale {
    /// `[batch, seq, d_model]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let gain = self.gain.val().cast(x.dtype());
        let length = gain.dims()[0];
        x * gain.reshape([1, 1, length])
    }
}
