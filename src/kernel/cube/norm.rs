//! Layer and RMS normalisation: one cube per row, which keeps its sums in shared memory. The backward pass recomputes
//! each row's mean and scale and passes them to the sums over rows, which have a fixed order.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::columns;
use super::launch::{contiguous, cube_sum, cubes, empty, empty_like, or_placeholder, rows_of};
use crate::kernel::extension::{Maybe, NormSettings};

/// Compile-time parameters of the norm kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    centred: bool,
    gamma: bool,
    beta: bool,
    /// Number of units of a cube.
    units: u32,
}

/// A row's mean, or 0 if it is not subtracted, and the inverse of its scale.
#[derive(CubeType, Clone, Copy)]
struct Statistics {
    mean: f32,
    inverse: f32,
}

#[cube]
fn statistics(
    x: &[f32],
    start: u32,
    width: u32,
    eps: f32,
    shared: &mut Shared<[f32]>,
    #[comptime] form: Form,
) -> Statistics {
    let units = comptime!(form.units);
    let mut mean = 0.0f32;
    if comptime!(form.centred) {
        let mut sum = 0.0f32;
        let mut i = UNIT_POS;
        while i < width {
            sum += x[(start + i) as usize];
            i += units;
        }
        mean = cube_sum(sum, shared, units) / f32::cast_from(width);
    }
    let mut squares = 0.0f32;
    let mut i = UNIT_POS;
    while i < width {
        let centred = x[(start + i) as usize] - mean;
        squares += centred * centred;
        i += units;
    }
    let variance = cube_sum(squares, shared, units) / f32::cast_from(width);
    Statistics {
        mean,
        inverse: 1.0f32 / (variance + eps).sqrt(),
    }
}

#[cube]
fn normalized(
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    out: &mut [f32],
    start: u32,
    width: u32,
    eps: f32,
    #[comptime] form: Form,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(form.units as usize));
    let row = statistics(x, start, width, eps, &mut shared, form);
    let mut i = UNIT_POS;
    while i < width {
        let mut y = (x[(start + i) as usize] - row.mean) * row.inverse;
        if comptime!(form.gamma) {
            y *= gamma[i as usize];
        }
        if comptime!(form.beta) {
            y += beta[i as usize];
        }
        out[(start + i) as usize] = y;
        i += comptime!(form.units);
    }
}

#[cube(launch)]
fn norm(
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    out: &mut [f32],
    width: u32,
    eps: f32,
    #[comptime] form: Form,
) {
    let start = CUBE_POS as u32 * width;
    if start >= out.len() as u32 {
        terminate!();
    }
    normalized(x, gamma, beta, out, start, width, eps, form);
}

#[cube(launch)]
fn norm_of_sum(
    x: &[f32],
    y: &[f32],
    gamma: &[f32],
    beta: &[f32],
    sum: &mut [f32],
    out: &mut [f32],
    width: u32,
    factor: f32,
    eps: f32,
    #[comptime] form: Form,
) {
    let start = CUBE_POS as u32 * width;
    if start >= out.len() as u32 {
        terminate!();
    }
    // Each unit reads only elements that it wrote itself.
    let mut i = UNIT_POS;
    while i < width {
        let at = (start + i) as usize;
        sum[at] = x[at] * factor + y[at];
        i += comptime!(form.units);
    }
    normalized(&*sum, gamma, beta, out, start, width, eps, form);
}

/// Computes the gradient of x; `rows` receives each row's mean and inverse scale.
#[cube(launch)]
fn norm_backward(
    x: &[f32],
    gamma: &[f32],
    grad: &[f32],
    d_x: &mut [f32],
    rows: &mut [f32],
    width: u32,
    eps: f32,
    #[comptime] form: Form,
) {
    let number = CUBE_POS as u32;
    let start = number * width;
    if start >= d_x.len() as u32 {
        terminate!();
    }
    let units = comptime!(form.units);
    let mut shared = Shared::<[f32]>::new_slice(comptime!(form.units as usize));
    let row = statistics(x, start, width, eps, &mut shared, form);
    let mut slope = 0.0f32;
    let mut shift = 0.0f32;
    let mut i = UNIT_POS;
    while i < width {
        let mut g = grad[(start + i) as usize];
        if comptime!(form.gamma) {
            g *= gamma[i as usize];
        }
        slope += (x[(start + i) as usize] - row.mean) * g;
        shift += g;
        i += units;
    }
    let slope = cube_sum(slope, &mut shared, units) * row.inverse / f32::cast_from(width);
    let mut moved = 0.0f32;
    if comptime!(form.centred) {
        moved = cube_sum(shift, &mut shared, units) / f32::cast_from(width);
    }
    let mut i = UNIT_POS;
    while i < width {
        let at = (start + i) as usize;
        let mut g = grad[at];
        if comptime!(form.gamma) {
            g *= gamma[i as usize];
        }
        let normal = (x[at] - row.mean) * row.inverse;
        d_x[at] = (g - moved - normal * slope) * row.inverse;
        i += units;
    }
    if UNIT_POS == 0 {
        rows[(2 * number) as usize] = row.mean;
        rows[(2 * number + 1) as usize] = row.inverse;
    }
}

/// Normalises over the last dimension.
pub fn forward(
    x: CubeTensor,
    gamma: Maybe<CubeBackend>,
    beta: Maybe<CubeBackend>,
    settings: NormSettings,
) -> CubeTensor {
    let x = contiguous(x);
    let [rows, width] = rows_of(&x);
    let out = empty_like(&x);
    let ((gamma, has_gamma), (beta, has_beta)) =
        (or_placeholder(gamma, &x), or_placeholder(beta, &x));
    let (count, dim, units) = cubes(&x, rows, width);
    let form = Form {
        centred: settings.centred,
        gamma: has_gamma,
        beta: has_beta,
        units,
    };
    let client = x.client.clone();
    norm::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        gamma.into_buffer_arg(),
        beta.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
        settings.eps as f32,
        form,
    );
    out
}

/// Returns `factor·x + y`, and the same normalised over the last dimension.
pub fn forward_of_sum(
    [x, y]: [CubeTensor; 2],
    gamma: Maybe<CubeBackend>,
    beta: Maybe<CubeBackend>,
    factor: f64,
    settings: NormSettings,
) -> [CubeTensor; 2] {
    let (x, y) = (contiguous(x), contiguous(y));
    let [rows, width] = rows_of(&x);
    let (sum, out) = (empty_like(&x), empty_like(&x));
    let ((gamma, has_gamma), (beta, has_beta)) =
        (or_placeholder(gamma, &x), or_placeholder(beta, &x));
    let (count, dim, units) = cubes(&x, rows, width);
    let form = Form {
        centred: settings.centred,
        gamma: has_gamma,
        beta: has_beta,
        units,
    };
    let client = x.client.clone();
    norm_of_sum::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        y.into_buffer_arg(),
        gamma.into_buffer_arg(),
        beta.into_buffer_arg(),
        sum.clone().into_buffer_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
        factor as f32,
        settings.eps as f32,
        form,
    );
    [sum, out]
}

/// Returns the gradients of x, gamma and beta.
pub fn backward(
    x: CubeTensor,
    gamma: Maybe<CubeBackend>,
    grad: CubeTensor,
    settings: NormSettings,
) -> [CubeTensor; 3] {
    let (x, grad) = (contiguous(x), contiguous(grad));
    let [rows, width] = rows_of(&x);
    let (d_x, statistics) = (empty_like(&x), empty(&x, [rows, 2]));
    let (gamma, has_gamma) = or_placeholder(gamma, &x);
    let (count, dim, units) = cubes(&x, rows, width);
    let form = Form {
        centred: settings.centred,
        gamma: has_gamma,
        beta: false,
        units,
    };
    norm_backward::launch(
        &x.client,
        count,
        dim,
        x.clone().into_buffer_arg(),
        gamma.into_buffer_arg(),
        grad.clone().into_buffer_arg(),
        d_x.clone().into_buffer_arg(),
        statistics.clone().into_buffer_arg(),
        width as u32,
        settings.eps as f32,
        form,
    );
    let [d_gamma, d_beta] = columns::of_norm(x, grad, statistics);
    [d_x, d_gamma, d_beta]
}
