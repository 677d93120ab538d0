//! Activations of feed-forward layers and their gated products (Shazeer 2020, arXiv:2002.05202).

use burn::tensor::Tensor;

use super::composed;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x·Φ(x)` with the error function (Hendrycks and Gimpel 2016).
    Gelu,
    /// GELU's tanh approximation: `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    GeluTanh,
    /// `x·σ(x)`
    Silu,
    /// `max(x, 0)²` (So et al. 2021, Primer).
    ReluSquared,
}

/// The activation of every element of x `[B, S, D]`.
pub fn activate(x: Tensor<3>, activation: Activation) -> Tensor<3> {
    composed::activate(x, activation)
}

/// `activation(gate)·up`, both `[B, S, D]`.
pub fn gated(gate: Tensor<3>, up: Tensor<3>, activation: Activation) -> Tensor<3> {
    composed::gated(gate, up, activation)
}
