//! Linear maps as one matrix product over all positions, and the residual addition.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::{Activation, DropKey, composed};
#[cfg(feature = "kernels")]
use super::{
    extension::{KernelOps, maybe},
    has_kernels, is_on_cube,
    precision::operand,
    rounds_operands,
};
#[cfg(feature = "kernels")]
use burn::tensor::FloatDType;

/// An input of linear maps, `[B, S, d_in]`. If a GPU rounds the operands of products, the input is rounded once for
/// all maps that read it and kept in that form for their backward passes.
#[derive(Clone, Debug)]
pub struct Operand {
    x: Tensor<3>,
    rounded: Option<Tensor<3>>,
}

impl Operand {
    /// Wraps the input `x`.
    pub fn new(x: Tensor<3>) -> Self {
        let rounded = round_operand(&x);
        Self { x, rounded }
    }

    /// Applies [`linear`] to the input.
    pub fn linear(self, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
        let Self { x, rounded } = self;
        #[cfg(feature = "kernels")]
        if has_kernels(&x) {
            let (x, weight) = (operand(x), operand(weight));
            let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
            let y = Dispatch::affine(x, maybe(rounded), weight, maybe(bias));
            return Tensor::from_dispatch(y);
        }
        let _ = rounded;
        composed::linear(x, weight, bias)
    }

    /// Applies [`linear`] and then [`super::activate`] to the input.
    pub fn activated(
        self,
        weight: Tensor<2>,
        bias: Option<Tensor<1>>,
        activation: Activation,
    ) -> Tensor<3> {
        let Self { x, rounded } = self;
        #[cfg(feature = "kernels")]
        if has_kernels(&x) {
            let (x, weight) = (operand(x), operand(weight));
            let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
            let (rounded, bias) = (maybe(rounded), maybe(bias));
            let y = Dispatch::activated_affine(x, rounded, weight, bias, activation);
            return Tensor::from_dispatch(y);
        }
        let _ = rounded;
        composed::activate(composed::linear(x, weight, bias), activation)
    }
}

/// Returns the operand in bfloat16, outside its graph; `None` if the kernels round it themselves or nothing is
/// rounded.
fn round_operand(x: &Tensor<3>) -> Option<Tensor<3>> {
    #[cfg(feature = "kernels")]
    if rounds_operands() && has_kernels(x) && is_on_cube(x) {
        return Some(x.clone().detach().cast(FloatDType::BF16));
    }
    let _ = x;
    None
}

/// `x·weightᵀ + bias`: x `[B, S, d_in]`, weight `[d_out, d_in]` or as [`repacked`] gives it, bias `[d_out]`, result
/// `[B, S, d_out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    Operand::new(x).linear(weight, bias)
}

/// Number of columns of a panel in a weight that [`repacked`] has repacked.
pub const PANEL: usize = 16;

/// Bit pattern that fills the last row of a repacked weight and distinguishes it from an ordinary matrix: a NaN that
/// no arithmetic produces.
pub const PANEL_MARK: u32 = 0x7fe5_704e;

/// Repacks a weight `[d_out, d_in]` in the order in which the kernels for products of a few rows, as in decoding,
/// read it. [`linear`] accepts the result in place of the weight; no gradient is tracked through it.
///
/// The result is `[d_out / 16 + 1, d_in · 16]`: panels of sixteen outputs, in each of them input after input, then a
/// row of [`PANEL_MARK`]. If `d_out` is not a multiple of sixteen, the result is the same matrix with contiguous rows. On
/// other devices or dtypes, or if products round their operands, the weight is returned unchanged.
pub fn repacked<const D: usize>(weight: Tensor<D>) -> Tensor<D> {
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
        panels.resize(rows.len() + d_in * PANEL, f32::from_bits(PANEL_MARK));
        let shape = [d_out / PANEL + 1, d_in * PANEL];
        return Tensor::from_data(TensorData::new(panels, shape), &device);
    }
    weight
}

/// Returns `x + y` for two tensors `[B, S, D]`: the residual addition.
pub fn add(x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let sum = Dispatch::residual_add(x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(sum);
    }
    composed::add(x, y)
}

/// Returns `x` plus [`super::dropout`] of `y`, two tensors `[B, S, D]`: the residual addition of a branch with
/// dropout.
pub fn add_dropped(x: Tensor<3>, y: Tensor<3>, key: DropKey) -> Tensor<3> {
    assert_eq!(x.dims(), y.dims(), "both sides of a residual addition");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) && key.p > 0.0 {
        let sum = Dispatch::dropped_onto(x.into_dispatch(), y.into_dispatch(), key);
        return Tensor::from_dispatch(sum);
    }
    add(x, super::dropout(y, key))
}
