//! Linear maps as one matrix product over all positions, and the residual addition.

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "flex")]
use super::{
    extension::{KernelOps, maybe},
    has_kernels,
};

/// `x·weight + bias`: x `[B, S, d_in]`, weight `[d_in, d_out]`, bias `[d_out]`, result `[B, S, d_out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if has_kernels(&x) {
        return fused(x, weight, bias, false);
    }
    composed::linear(x, weight, bias)
}

/// `x·weightᵀ` with weight `[d_out, d_in]`: the head that shares the embedding's table.
pub fn linear_transposed(x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if has_kernels(&x) {
        return fused(x, weight, None, true);
    }
    composed::linear_transposed(x, weight)
}

/// The same matrix with its columns contiguous, if the kernels here read it: products of a few rows, as decoding makes
/// them, then read it in the order of memory.
pub fn by_columns<const D: usize>(weight: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if D == 2 && has_kernels(&weight) {
        let device = weight.device();
        return Tensor::from_data(weight.swap_dims(0, 1).into_data(), &device).swap_dims(0, 1);
    }
    weight
}

/// `x + y` for two tensors `[B, S, D]`: the residual addition.
pub fn add(x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "flex")]
    if has_kernels(&x) {
        let sum = Dispatch::residual_add(x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(sum);
    }
    composed::add(x, y)
}

#[cfg(feature = "flex")]
fn fused(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>, transposed: bool) -> Tensor<3> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::affine(x, weight, maybe(bias), transposed))
}
