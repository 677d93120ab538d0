//! Dynamic tanh, elementwise. The gradients of alpha, gamma and beta are summed over pieces of rows, then over the
//! pieces.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::activation::bounded_tanh;
use super::columns::{self, ROWS};
use super::launch::{contiguous, empty, empty_like, rows_of, units};
use crate::kernel::dynamic_tanh::extension::{
    DynamicTanhBackwardOps, DynamicTanhOps, DynamicTanhSaved,
};

#[cube(launch)]
fn squashed(x: &[f32], alpha: &[f32], gamma: &[f32], beta: &[f32], out: &mut [f32], width: u32) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    let column = (ABSOLUTE_POS as u32 % width) as usize;
    let t = bounded_tanh(alpha[0] * x[ABSOLUTE_POS]);
    out[ABSOLUTE_POS] = gamma[column] * t + beta[column];
}

/// Processes one column of a piece of rows: writes the gradients of x and sums those of alpha, gamma and beta.
#[cube(launch)]
fn slopes(
    x: &[f32],
    alpha: &[f32],
    gamma: &[f32],
    grad: &[f32],
    d_x: &mut [f32],
    d_alpha: &mut [f32],
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
    let a = alpha[0];
    let scale = gamma[column as usize];
    let mut of_alpha = 0.0f32;
    let mut of_gamma = 0.0f32;
    let mut of_beta = 0.0f32;
    for row in first..end {
        let at = (row * width + column) as usize;
        let value = x[at];
        let g = grad[at];
        let t = bounded_tanh(a * value);
        let slope = (1.0f32 - t * t) * (g * scale);
        d_x[at] = slope * a;
        of_alpha += slope * value;
        of_gamma += g * t;
        of_beta += g;
    }
    d_alpha[unit as usize] = of_alpha;
    d_gamma[unit as usize] = of_gamma;
    d_beta[unit as usize] = of_beta;
}

impl DynamicTanhOps for CubeBackend {
    fn dynamic_tanh(
        x: CubeTensor,
        alpha: CubeTensor,
        gamma: CubeTensor,
        beta: CubeTensor,
    ) -> CubeTensor {
        let [x, alpha, gamma, beta] = [x, alpha, gamma, beta].map(contiguous);
        let out = empty_like(&x);
        let [rows, width] = rows_of(&x);
        let (cubes, dim) = units(&x, rows * width);
        let client = x.client.clone();
        squashed::launch(
            &client,
            cubes,
            dim,
            x.into_buffer_arg(),
            alpha.into_buffer_arg(),
            gamma.into_buffer_arg(),
            beta.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            width as u32,
        );
        out
    }
}

impl DynamicTanhBackwardOps for CubeBackend {
    fn dynamic_tanh_backward(saved: DynamicTanhSaved<Self>, grad: CubeTensor) -> [CubeTensor; 4] {
        let DynamicTanhSaved { x, alpha, gamma } = saved;
        let [x, alpha, gamma, grad] = [x, alpha, gamma, grad].map(contiguous);
        let [rows, width] = rows_of(&x);
        let count = rows.div_ceil(ROWS).max(1);
        let d_x = empty_like(&x);
        // Each column's share of alpha's gradient is a row of one number.
        let of_alpha = empty(&x, [count * width, 1]);
        let [of_gamma, of_beta] = [empty(&x, [count, width]), empty(&x, [count, width])];
        let (cubes, dim) = units(&x, count * width);
        let client = x.client.clone();
        slopes::launch(
            &client,
            cubes,
            dim,
            x.into_buffer_arg(),
            alpha.into_buffer_arg(),
            gamma.into_buffer_arg(),
            grad.into_buffer_arg(),
            d_x.clone().into_buffer_arg(),
            of_alpha.clone().into_buffer_arg(),
            of_gamma.clone().into_buffer_arg(),
            of_beta.clone().into_buffer_arg(),
            width as u32,
            rows as u32,
            ROWS as u32,
        );
        let [d_alpha, d_gamma, d_beta] = [of_alpha, of_gamma, of_beta].map(columns::sum);
        [d_x, d_alpha, d_gamma, d_beta]
    }
}
