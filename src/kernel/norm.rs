//! Normalisation over the last dimension: layer normalisation (Ba et al. 2016, arXiv:1607.06450) and RMS
//! normalisation (Zhang and Sennrich 2019, arXiv:1910.07467).

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{
    extension::{KernelOps, NormSettings, maybe},
    has_kernels,
};

/// Returns `(x − mean) / √(variance + eps) · gamma + beta`: x `[B, S, D]`, gamma and beta `[D]`. A beta requires a
/// gamma.
pub fn layer_norm(
    x: Tensor<3>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    assert_shift(&gamma, &beta);
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let settings = NormSettings { eps, centred: true };
        let (gamma, beta) = (maybe(gamma), maybe(beta));
        return Tensor::from_dispatch(Dispatch::norm(x.into_dispatch(), gamma, beta, settings));
    }
    composed::layer_norm(x, gamma, beta, eps)
}

/// Returns `x / √(mean(x²) + eps) · gamma`: x `[B, S, D]`, gamma `[D]`.
pub fn rms_norm(x: Tensor<3>, gamma: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    #[cfg(feature = "kernels")]
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

/// Returns [`layer_norm`] of `factor·x + y`, a residual connection that ends in a norm: x and y `[B, S, D]`.
pub fn layer_norm_of_sum(
    [x, y]: [Tensor<3>; 2],
    factor: f64,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    assert_shift(&gamma, &beta);
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let settings = NormSettings { eps, centred: true };
        return of_sum([x, y], factor, [gamma, beta], settings);
    }
    composed::layer_norm(x * factor + y, gamma, beta, eps)
}

/// Returns [`rms_norm`] of `factor·x + y`: x and y `[B, S, D]`.
pub fn rms_norm_of_sum(
    [x, y]: [Tensor<3>; 2],
    factor: f64,
    gamma: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let settings = NormSettings {
            eps,
            centred: false,
        };
        return of_sum([x, y], factor, [gamma, None], settings);
    }
    composed::rms_norm(x * factor + y, gamma, eps)
}

/// Requires that a beta comes with a gamma, since derivatives list gamma's gradient before beta's.
fn assert_shift(gamma: &Option<Tensor<1>>, beta: &Option<Tensor<1>>) {
    assert!(
        gamma.is_some() || beta.is_none(),
        "a shift stands beside a scale"
    );
}

#[cfg(feature = "kernels")]
fn of_sum(
    terms: [Tensor<3>; 2],
    factor: f64,
    vectors: [Option<Tensor<1>>; 2],
    settings: NormSettings,
) -> Tensor<3> {
    let [x, y] = terms.map(Tensor::into_dispatch);
    let [gamma, beta] = vectors.map(maybe);
    let out = Dispatch::norm_of_sum(x, y, gamma, beta, factor, settings);
    Tensor::from_dispatch(out)
}

/// Square of the least length that a vector is divided by, so that vectors of zeros stay zero (PyTorch's `normalize`).
const MIN_SQUARED_LENGTH: f64 = 1e-24;

/// Scales the vectors of the last dimension to length 1.
pub fn l2_normalise<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let squares = (x.clone() * x.clone()).sum_dim(D - 1);
    x / squares.clamp_min(MIN_SQUARED_LENGTH).sqrt()
}
