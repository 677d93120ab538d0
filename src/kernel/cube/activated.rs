//! The activation of a linear map. The bias is added where the activation reads the product, and the gradient of the
//! product is rounded and summed over rows where it is computed, so neither needs a separate pass over memory.

use burn::tensor::bf16;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::activation::{self, slope};
use super::columns::{self, ROWS};
use super::launch::{contiguous, empty, empty_rounded, or_placeholder, rows_of, units};
use super::linear;
use crate::kernel::extension::{ActivatedSaved, Maybe};
use crate::kernel::{Activation, rounds_operands};

/// Computes the product's gradient in bfloat16, and the sum of each of its columns over each piece of rows.
#[cube(launch)]
fn rounded_slopes(
    x: &[f32],
    bias: &[f32],
    grad: &[f32],
    rounded: &mut [bf16],
    sums: &mut [f32],
    width: u32,
    rows: u32,
    #[comptime] piece: u32,
    #[comptime] activation: Activation,
    #[comptime] biased: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= sums.len() as u32 {
        terminate!();
    }
    let column = unit % width;
    let mut shift = 0.0f32;
    if comptime!(biased) {
        shift = bias[column as usize];
    }
    let first = unit / width * piece;
    let end = min(first + piece, rows);
    let mut sum = 0.0f32;
    for row in first..end {
        let at = (row * width + column) as usize;
        let gradient = slope(x[at] + shift, activation) * grad[at];
        rounded[at] = bf16::cast_from(gradient);
        sum += gradient;
    }
    sums[unit as usize] = sum;
}

/// Returns `f(x·weightᵀ + bias)` and the product `x·weightᵀ`.
pub fn saving(
    x: CubeTensor,
    weight: CubeTensor,
    bias: Maybe<CubeBackend>,
    activation: Activation,
) -> [CubeTensor; 2] {
    let product = contiguous(linear::forward(x, weight, Maybe::None));
    let out = activation::forward(product.clone(), bias, activation);
    [out, product]
}

/// Returns the wanted gradients of input, weight and bias.
pub fn gradients(
    saved: ActivatedSaved<CubeBackend>,
    grad: CubeTensor,
    activation: Activation,
    wanted: [bool; 3],
) -> [Option<CubeTensor>; 3] {
    let ActivatedSaved {
        x,
        weight,
        inner,
        bias,
    } = saved;
    if !rounds_operands() {
        let grad = activation::backward(inner, bias, grad, activation);
        return linear::gradients([x, weight], grad, wanted);
    }
    let [grad, sums] = rounded(inner, bias, contiguous(grad), activation);
    let [of_x, of_weight, of_bias] = wanted;
    let [d_x, d_weight, _] = linear::gradients([x, weight], grad, [of_x, of_weight, false]);
    [d_x, d_weight, of_bias.then(|| columns::sum(sums))]
}

/// Returns the gradient of the product in bfloat16, and its sums over pieces of rows.
fn rounded(
    inner: CubeTensor,
    bias: Maybe<CubeBackend>,
    grad: CubeTensor,
    activation: Activation,
) -> [CubeTensor; 2] {
    let [rows, width] = rows_of(&inner);
    let count = rows.div_ceil(ROWS).max(1);
    let (rounded, sums) = (empty_rounded(&inner), empty(&inner, [count, width]));
    let (bias, biased) = or_placeholder(bias, &inner);
    let (cubes, dim) = units(&inner, count * width);
    let client = inner.client.clone();
    rounded_slopes::launch(
        &client,
        cubes,
        dim,
        inner.into_buffer_arg(),
        bias.into_buffer_arg(),
        grad.into_buffer_arg(),
        rounded.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        width as u32,
        rows as u32,
        ROWS as u32,
        activation,
        biased,
    );
    [rounded, sums]
}
