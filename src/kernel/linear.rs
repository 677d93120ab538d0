//! Linear maps as one matrix product over all positions, and the residual addition.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{
    extension::{KernelOps, maybe},
    has_kernels,
    precision::operand,
};

/// `x·weightᵀ + bias`: x `[B, S, d_in]`, weight `[d_out, d_in]` or as [`stored`] gives it, bias `[d_out]`, result
/// `[B, S, d_out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let (x, weight) = (operand(x), operand(weight));
        let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
        return Tensor::from_dispatch(Dispatch::affine(x, weight, maybe(bias)));
    }
    composed::linear(x, weight, bias)
}

/// Columns of a panel of a weight that [`stored`] has put into panels.
pub const PANEL: usize = 16;

/// The filling of the last row of a weight in panels, by which it is told from a matrix: not a number, and none that
/// arithmetic makes.
pub const STORED: u32 = 0x7fe5_704e;

/// A weight `[d_out, d_in]` in the order in which products of a few rows, as decoding makes them, read it, if the kernels
/// here make them; [`linear`] takes it in its place, and nothing tracks a gradient through it.
///
/// The result is `[d_out / 16 + 1, d_in · 16]`: sixteen outputs after sixteen outputs, in each of them input after input,
/// then a row of [`STORED`].
/// Where `d_out` is no multiple of sixteen, or products round their operands, it is the same matrix with its rows contiguous.
pub fn stored<const D: usize>(weight: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if D == 2 && super::has_flex_kernels(&weight) && !super::rounds_operands() {
        use burn::tensor::TensorData;
        let device = weight.device();
        let [d_out, d_in] = [weight.dims()[0], weight.dims()[1]];
        let weight = weight.into_data();
        if d_out % PANEL != 0 || d_in == 0 {
            return Tensor::from_data(weight, &device);
        }
        let rows: Vec<f32> = weight.iter().collect();
        let mut panels: Vec<f32> = Vec::with_capacity(rows.len() + d_in * PANEL);
        for outputs in rows.chunks_exact(PANEL * d_in) {
            for input in 0..d_in {
                panels.extend(outputs.iter().skip(input).step_by(d_in));
            }
        }
        panels.resize(rows.len() + d_in * PANEL, f32::from_bits(STORED));
        let shape = [d_out / PANEL + 1, d_in * PANEL];
        return Tensor::from_data(TensorData::new(panels, shape), &device);
    }
    weight
}

/// `x + y` for two tensors `[B, S, D]`: the residual addition.
pub fn add(x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let sum = Dispatch::residual_add(x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(sum);
    }
    composed::add(x, y)
}
