//! Activations of feed-forward layers and their gated products (Shazeer 2020, arXiv:2002.05202).

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{extension::KernelOps, has_kernels};

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// `x·σ(1.702·x)`, GELU's sigmoid approximation (Hendrycks and Gimpel 2016, section 2).
    QuickGelu,
    /// `σ(x)`: the gate of a gated linear unit (Dauphin et al. 2017).
    Sigmoid,
}

/// Steepness of the sigmoid in [`Activation::QuickGelu`].
pub(super) const QUICK_GELU: f32 = 1.702;

/// Applies an activation to every element of x `[B, S, D]`.
pub fn activate(x: Tensor<3>, activation: Activation) -> Tensor<3> {
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        return Tensor::from_dispatch(Dispatch::activation(x.into_dispatch(), activation));
    }
    composed::activate(x, activation)
}

/// Returns `activation(gate)·up`, both `[B, S, D]`.
pub fn gated(gate: Tensor<3>, up: Tensor<3>, activation: Activation) -> Tensor<3> {
    assert_eq!(gate.dims(), up.dims(), "both sides of a gated product");
    #[cfg(feature = "kernels")]
    if has_kernels(&gate) {
        let (gate, up) = (gate.into_dispatch(), up.into_dispatch());
        return Tensor::from_dispatch(Dispatch::gated(gate, up, activation));
    }
    composed::gated(gate, up, activation)
}
