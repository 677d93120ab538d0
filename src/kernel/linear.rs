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

/// `x·weight + bias`: x `[B, S, d_in]`, weight `[d_in, d_out]` or as [`stored`] gives it, bias `[d_out]`, result
/// `[B, S, d_out]`.
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

/// Columns of a panel of a weight that [`stored`] has put into panels.
pub const PANEL: usize = 16;

/// A weight `[d_in, d_out]` in the order in which products of a few rows, as decoding makes them, read it, if the kernels
/// here make them; [`linear`] takes it in its place, and nothing tracks a gradient through it.
///
/// The result is `[d_out / 16 · d_in, 16]`: sixteen columns after sixteen columns. Where `d_out` is no multiple of
/// sixteen, or sixteen itself, it is the same matrix with its columns contiguous.
pub fn stored<const D: usize>(weight: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if D == 2 && has_kernels(&weight) {
        use burn::tensor::TensorData;
        let device = weight.device();
        let [d_in, d_out] = [weight.dims()[0], weight.dims()[1]];
        if d_out <= PANEL || d_out % PANEL != 0 || d_in == 0 {
            return Tensor::from_data(weight.swap_dims(0, 1).into_data(), &device).swap_dims(0, 1);
        }
        let weight = weight.into_data();
        let rows: Vec<f32> = weight.iter().collect();
        let mut panels = Vec::with_capacity(rows.len());
        for first in (0..d_out).step_by(PANEL) {
            for row in rows.chunks_exact(d_out) {
                panels.extend_from_slice(&row[first..first + PANEL]);
            }
        }
        let shape = [d_out / PANEL * d_in, PANEL];
        return Tensor::from_data(TensorData::new(panels, shape), &device);
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
