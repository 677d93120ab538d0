//! Sums over rows: first within pieces of [`ROWS`] rows, then over the pieces, so that every sum has a fixed order.

use burn::backend::TensorMetadata;
use burn::tensor::bf16;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty, empty_operand, empty_rounded, rows_of, spaced_rows, units};
use crate::kernel::rounds_operands;

/// Number of rows of a piece.
pub const ROWS: usize = 64;

/// Sums each column over each piece of rows.
#[cube(launch)]
fn pieces(x: &[f32], out: &mut [f32], width: u32, rows: u32, #[comptime] piece: u32) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= out.len() as u32 {
        terminate!();
    }
    let column = unit % width;
    let first = unit / width * piece;
    let end = min(first + piece, rows);
    let mut sum = 0.0f32;
    for row in first..end {
        sum += x[(row * width + column) as usize];
    }
    out[unit as usize] = sum;
}

/// Sums a norm's gradients over each piece of rows: `grad·normalised x` for gamma and `grad` for beta.
#[cube(launch)]
fn pieces_of_norm(
    x: &[f32],
    grad: &[f32],
    statistics: &[f32],
    d_gamma: &mut [f32],
    d_beta: &mut [f32],
    width: u32,
    rows: u32,
    #[comptime] piece: u32,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= d_gamma.len() as u32 {
        terminate!();
    }
    let column = unit % width;
    let first = unit / width * piece;
    let end = min(first + piece, rows);
    let mut slopes = 0.0f32;
    let mut shifts = 0.0f32;
    for row in first..end {
        let at = (row * width + column) as usize;
        let mean = statistics[(2 * row) as usize];
        let inverse = statistics[(2 * row + 1) as usize];
        let g = grad[at];
        slopes += g * ((x[at] - mean) * inverse);
        shifts += g;
    }
    d_gamma[unit as usize] = slopes;
    d_beta[unit as usize] = shifts;
}

/// Like [`pieces`], and also writes the elements in bfloat16.
#[cube(launch)]
fn rounded_pieces(
    x: &Tensor<f32>,
    rounded: &mut Tensor<bf16>,
    out: &mut [f32],
    width: u32,
    rows: u32,
    distance: u32,
    rounded_distance: u32,
    #[comptime] piece: u32,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= out.len() as u32 {
        terminate!();
    }
    let column = unit % width;
    let first = unit / width * piece;
    let end = min(first + piece, rows);
    let mut sum = 0.0f32;
    for row in first..end {
        let value = x[(row * distance + column) as usize];
        rounded[(row * rounded_distance + column) as usize] = bf16::cast_from(value);
        sum += value;
    }
    out[unit as usize] = sum;
}

/// Sums each column of a tensor, taking its last dimension as the row: `[width]`.
pub fn sum(x: CubeTensor) -> CubeTensor {
    let mut x = contiguous(x);
    let [mut rows, width] = rows_of(&x);
    loop {
        let count = rows.div_ceil(ROWS).max(1);
        let out = match count {
            1 => empty(&x, [width]),
            _ => empty(&x, [count, width]),
        };
        let (cubes, dim) = units(&x, count * width);
        let client = x.client.clone();
        pieces::launch(
            &client,
            cubes,
            dim,
            x.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            width as u32,
            rows as u32,
            ROWS as u32,
        );
        if count == 1 {
            return out;
        }
        (x, rows) = (out, count);
    }
}

/// Returns an operand of several products, rounded once if products round their operands, and its unrounded [`sum`].
pub fn summed_operand(x: CubeTensor) -> [CubeTensor; 2] {
    match rounds_operands() {
        true => rounded_with_sum(x),
        false => [x.clone(), sum(x)],
    }
}

/// Returns a tensor in bfloat16 and its [`sum`], in one pass over it.
fn rounded_with_sum(x: CubeTensor) -> [CubeTensor; 2] {
    let (x, distance) = spaced_rows(x);
    let [rows, width] = rows_of(&x);
    let count = rows.div_ceil(ROWS).max(1);
    let (rounded, rounded_distance) = match x.rank() {
        2 => empty_operand(&x, [rows, width]),
        _ => (empty_rounded(&x), width),
    };
    let out = empty(&x, [count, width]);
    let (cubes, dim) = units(&x, count * width);
    let client = x.client.clone();
    rounded_pieces::launch(
        &client,
        cubes,
        dim,
        x.into_tensor_arg(),
        rounded.clone().into_tensor_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
        rows as u32,
        distance as u32,
        rounded_distance as u32,
        ROWS as u32,
    );
    [rounded, sum(out)]
}

/// Returns the gradients of a norm's gamma and beta, given the means and inverse scales of all rows.
pub fn of_norm(x: CubeTensor, grad: CubeTensor, statistics: CubeTensor) -> [CubeTensor; 2] {
    let [rows, width] = rows_of(&x);
    let count = rows.div_ceil(ROWS).max(1);
    let parts = [empty(&x, [count, width]), empty(&x, [count, width])];
    let (cubes, dim) = units(&x, count * width);
    let client = x.client.clone();
    let [d_gamma, d_beta] = parts.clone().map(CubeTensor::into_buffer_arg);
    pieces_of_norm::launch(
        &client,
        cubes,
        dim,
        x.into_buffer_arg(),
        grad.into_buffer_arg(),
        statistics.into_buffer_arg(),
        d_gamma,
        d_beta,
        width as u32,
        rows as u32,
        ROWS as u32,
    );
    parts.map(sum)
}
