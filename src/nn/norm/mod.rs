//! Normalisation of the last dimension.
//!
//! Each kind has its own file.

pub mod dynamic_tanh;
pub mod layer;
pub mod rms;
pub mod scale;

use super::Kind;
use super::init::Init;
use crate::faults::TableFaults;
use crate::kernel;
use burn::module::Module;
use burn::tensor::Tensor;
pub use dynamic_tanh::{DynamicTanh, DynamicTanhConfig};
pub use layer::{LayerNorm, LayerNormConfig};
pub use rms::{RmsNorm, RmsNormConfig};
pub use scale::{ScaleNorm, ScaleNormConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of `[model] norm`.
pub const KINDS: &[Kind] = &[
    layer::KIND,
    rms::KIND,
    scale::KIND,
    dynamic_tanh::KIND,
    Kind {
        kind: "none",
        summary: "no normalisation",
        source: "",
        example: "{ kind = \"none\" }",
    },
];

/// The normalisation of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NormConfig {
    /// Layer norm.
    Layer(LayerNormConfig),
    /// RMS norm.
    Rms(RmsNormConfig),
    /// Scale norm.
    Scale(ScaleNormConfig),
    /// Dynamic tanh.
    DynamicTanh(DynamicTanhConfig),
    /// No normalisation.
    None(NoNormConfig),
}

impl Default for NormConfig {
    fn default() -> Self {
        Self::Layer(LayerNormConfig::default())
    }
}

/// `none` has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoNormConfig {}

impl NormConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Layer(c) => c.faults(at),
            Self::Rms(c) => c.faults(at),
            Self::Scale(c) => c.faults(at),
            Self::DynamicTanh(c) => c.faults(at),
            Self::None(_) => {}
        }
    }

    /// Returns RMS norm with default settings.
    pub fn rms() -> Self {
        Self::Rms(RmsNormConfig::default())
    }

    /// Returns RMS norm with this ε and otherwise default settings.
    pub fn rms_of(eps: f64) -> Self {
        Self::Rms(RmsNormConfig {
            eps,
            ..RmsNormConfig::default()
        })
    }

    /// Returns the choice of no normalisation.
    pub fn none() -> Self {
        Self::None(NoNormConfig {})
    }

    /// Whether there is no normalisation.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }

    /// Builds a norm over vectors of `d` elements.
    pub fn init(&self, d: usize, init: &Init) -> Norm {
        match self {
            Self::Layer(c) => Norm::Layer(c.init(d, init)),
            Self::Rms(c) => Norm::Rms(c.init(d, init)),
            Self::Scale(c) => Norm::Scale(c.init(init)),
            Self::DynamicTanh(c) => Norm::DynamicTanh(c.init(d, init)),
            Self::None(_) => Norm::None(NoNorm {}),
        }
    }
}

/// A normalisation with its parameters.
#[derive(Module, Debug)]
pub enum Norm {
    /// Layer norm.
    Layer(LayerNorm),
    /// RMS norm.
    Rms(RmsNorm),
    /// Scale norm.
    Scale(ScaleNorm),
    /// Dynamic tanh.
    DynamicTanh(DynamicTanh),
    /// No normalisation.
    None(NoNorm),
}

impl Norm {
    /// Normalises `[batch, seq, d]`; the shape stays the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Layer(n) => n.forward(x),
            Self::Rms(n) => n.forward(x),
            Self::Scale(n) => n.forward(x),
            Self::DynamicTanh(n) => n.forward(x),
            Self::None(_) => x,
        }
    }

    /// Returns the norm of `factor·x + y`; `x`, `y` and the result are `[batch, seq, d]`.
    pub fn forward_of_sum(&self, x: Tensor<3>, y: Tensor<3>, factor: f64) -> Tensor<3> {
        match self {
            Self::Layer(n) => n.forward_of_sum([x, y], factor),
            Self::Rms(n) => n.forward_of_sum([x, y], factor),
            Self::Scale(n) => n.forward_of_sum([x, y], factor),
            Self::DynamicTanh(n) => n.forward_of_sum([x, y], factor),
            Self::None(_) => kernel::add(scale_by(x, factor), y),
        }
    }
}

/// Returns `factor·x`.
pub fn scale_by(x: Tensor<3>, factor: f64) -> Tensor<3> {
    if factor == 1.0 { x } else { x * factor }
}

/// The absence of a norm.
#[derive(Module, Debug)]
pub struct NoNorm {}
