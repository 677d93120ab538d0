//! Learned scales of residual connections: on each layer's output before the residual addition, or on the stream that it is
//! added to.
//!
//! x + λ·f(LN(x)), with λ a number for each channel (layer scale) or one number (ReZero). If λ starts near 0, every
//! block starts as the identity, so that depth is learned. LN(ω∘x + f(x)) with a large ω (Admin) does the same if norms follow
//! the sum.

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
        summary: "results are added to the residual stream unscaled",
        source: "Vaswani et al. 2017",
        example: "{ kind = \"none\" }",
    },
    layer_scale::KIND,
    rezero::KIND,
    admin::KIND,
];

/// The learned scale of a residual connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ResidualScaleConfig {
    /// No scale.
    None(NotScaled),
    /// One learned number for each channel of a layer's output.
    LayerScale(LayerScaleConfig),
    /// One learned number for a layer's output.
    Rezero(RezeroConfig),
    /// One learned number for each channel of the stream; layer outputs are not scaled.
    Admin(AdminConfig),
}

/// The `none` kind, which has no keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotScaled {}

impl Default for ResidualScaleConfig {
    fn default() -> Self {
        Self::None(NotScaled {})
    }
}

impl ResidualScaleConfig {
    /// Whether there is no learned scale.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }

    /// Checks its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::None(_) => {}
            Self::LayerScale(c) => c.faults(at),
            Self::Rezero(c) => c.faults(at),
            Self::Admin(c) => c.faults(at),
        }
    }

    /// Number of examples on which its initial values are measured before the first step, if they are measured.
    pub fn measurement_examples(&self) -> Option<usize> {
        match self {
            Self::None(_) | Self::LayerScale(_) | Self::Rezero(_) => None,
            Self::Admin(c) => Some(c.examples),
        }
    }

    /// Whether it scales the stream that a norm after the sum reads. It then needs such a norm, and a separate scale for each
    /// connection.
    pub fn scales_skips(&self) -> bool {
        match self {
            Self::None(_) | Self::LayerScale(_) | Self::Rezero(_) => false,
            Self::Admin(_) => true,
        }
    }

    /// Builds the scale of the stream in one residual connection over vectors of `d_model` elements, if this kind has one.
    pub(super) fn skip(&self, d_model: usize, init: &Init) -> Option<SkipScale> {
        self.scales_skips().then(|| SkipScale::new(d_model, init))
    }

    /// Builds the scale of one layer's output over vectors of `d_model` elements, if this kind has one.
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

/// Places of the parameters of [`ResidualScale`].
pub const ROLES: Roles = Roles::new("ResidualScale", &[("gain", NORM)]);

/// The learned scale of one layer's output.
#[derive(Module, Debug)]
pub struct ResidualScale {
    /// The scale, `[d_model]` or `[1]`.
    pub gain: Param<Tensor<1>>,
}

impl ResidualScale {
    /// Scales a layer's output: `[batch, seq, d_model]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let gain = self.gain.val().cast(x.dtype());
        let length = gain.dims()[0];
        x * gain.reshape([1, 1, length])
    }
}
