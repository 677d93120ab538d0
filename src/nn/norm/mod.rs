//! Normalisation of the last dimension.
//!
//! Each kind stands in a file of its own.

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

/// Which normalisation a model uses.
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

/// `none` has no knobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoNormConfig {}

impl NormConfig {
    /// Faults of its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Layer(c) => c.faults(at),
            Self::Rms(c) => c.faults(at),
            Self::Scale(c) => c.faults(at),
            Self::DynamicTanh(c) => c.faults(at),
            Self::None(_) => {}
        }
    }

    /// RMS norm with its usual keys.
    pub fn rms() -> Self {
        Self::Rms(RmsNormConfig::default())
    }

    /// RMS norm with this ε.
    pub fn rms_of(eps: f64) -> Self {
        Self::Rms(RmsNormConfig {
            eps,
            ..RmsNormConfig::default()
        })
    }

    /// Vectors stay as they are.
    pub fn none() -> Self {
        Self::None(NoNormConfig {})
    }

    /// Whether vectors stay as they are.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }

    /// A norm over vectors of `d` elements.
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
    /// `[batch, seq, d]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Layer(n) => n.forward(x),
            Self::Rms(n) => n.forward(x),
            Self::Scale(n) => n.forward(x),
            Self::DynamicTanh(n) => n.forward(x),
            Self::None(_) => x,
        }
    }

    /// The norm of `factor·x + y`, all three `[batch, seq, d]`.
    pub fn forward_sum(&self, x: Tensor<3>, y: Tensor<3>, factor: f64) -> Tensor<3> {
        match self {
            Self::Layer(n) => n.forward_sum([x, y], factor),
            Self::Rms(n) => n.forward_sum([x, y], factor),
            Self::Scale(n) => n.forward_sum([x, y], factor),
            Self::DynamicTanh(n) => n.forward_sum([x, y], factor),
            Self::None(_) => kernel::add(scaled(x, factor), y),
        }
    }
}

/// `factor·x`.
pub fn scaled(x: Tensor<3>, factor: f64) -> Tensor<3> {
    if factor == 1.0 { x } else { x * factor }
}

/// Nothing.
#[derive(Module, Debug)]
pub struct NoNorm {}
