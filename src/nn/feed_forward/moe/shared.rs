//! The experts that every token uses, as one layer.

use super::super::{Dense, Gated};
use super::ExpertConfig;
use crate::nn::init::Init;
use crate::nn::layer::{Layer, LayerContext};
use burn::module::Module;
use burn::tensor::Tensor;

/// Shared experts, whose inner vectors are concatenated.
#[derive(Module, Debug)]
pub enum SharedExperts {
    /// W₂·act(W₁x).
    Dense(Dense),
    /// W₂(act(W₁x)⊙W₃x).
    Gated(Gated),
}

impl SharedExperts {
    /// Builds the layer for vectors of `d_model` elements, with dropout after its nonlinearity.
    pub(super) fn new(config: &ExpertConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        match config {
            ExpertConfig::Dense(c) => Self::Dense(Dense::new(c, d_model, dropout, init)),
            ExpertConfig::Gated(c) => Self::Gated(Gated::new(c, d_model, dropout, init)),
        }
    }
}

impl Layer for SharedExperts {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        match self {
            Self::Dense(layer) => layer.forward(x, cx),
            Self::Gated(layer) => layer.forward(x, cx),
        }
    }
}
