//! Normalisation over the last dimension: layer (Ba et al. 2016, arXiv:1607.06450) and root mean square
//! (Zhang and Sennrich 2019, arXiv:1910.07467).

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "flex")]
use super::{
    extension::{KernelOps, NormSettings, maybe},
    has_kernels,
};

/// A normalisation with its parameters.
#[derive(Clone, Debug)]
pub enum NormParameters {
    /// [`layer_norm`]'s gamma and beta.
    Layer(Tensor<1>, Option<Tensor<1>>),
    /// [`rms_norm`]'s gamma.
    Rms(Option<Tensor<1>>),
}

/// The normalisation of `factor·x + y`, a residual connection that ends in a norm: x and y `[B, S, D]`.
pub fn norm_of_sum(
    x: Tensor<3>,
    y: Tensor<3>,
    factor: f64,
    norm: NormParameters,
    eps: f64,
) -> Tensor<3> {
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "flex")]
    if has_kernels(&x) {
        let centred = matches!(norm, NormParameters::Layer(..));
        let (gamma, beta) = match norm {
            NormParameters::Layer(gamma, beta) => (maybe(Some(gamma)), maybe(beta)),
            NormParameters::Rms(gamma) => (maybe(gamma), maybe::<1>(None)),
        };
        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        let settings = NormSettings { eps, centred };
        let out = Dispatch::norm_of_sum(x, y, gamma, beta, factor, settings);
        return Tensor::from_dispatch(out);
    }
    composed::norm_of_sum(x, y, factor, norm, eps)
}

/// `(x − mean) / √(variance + eps) · gamma + beta`: x `[B, S, D]`, gamma and beta `[D]`.
pub fn layer_norm(x: Tensor<3>, gamma: Tensor<1>, beta: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if has_kernels(&x) {
        let settings = NormSettings { eps, centred: true };
        let (gamma, beta) = (maybe(Some(gamma)), maybe(beta));
        return Tensor::from_dispatch(Dispatch::norm(x.into_dispatch(), gamma, beta, settings));
    }
    composed::layer_norm(x, gamma, beta, eps)
}

/// `x / √(mean(x²) + eps) · gamma`: x `[B, S, D]`, gamma `[D]`.
pub fn rms_norm(x: Tensor<3>, gamma: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if has_kernels(&x) {
        let settings = NormSettings {
            eps,
            centred: false,
        };
        let (gamma, beta) = (maybe(gamma), maybe::<1>(None));
        return Tensor::from_dispatch(Dispatch::norm(x.into_dispatch(), gamma, beta, settings));
    }
    composed::rms_norm(x, gamma, eps)
}
