//! Linear maps, their gradients and the residual addition.

use burn_flex::FlexTensor;
use pulp::Simd;

use super::activation::elementwise;
use super::buffer::{SINGLE_THREAD_LEN, contiguous, dims, slice, tensor};
use super::product::{Matrix, product_new, product_with_panels};
use super::simd::{Elementwise, Vector, map_in_place};
use super::threads;
use crate::kernel::{PANEL, PANEL_MARK};

/// `x + y`.
#[derive(Clone, Copy)]
pub struct Sum;

impl Elementwise<2> for Sum {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, y]: [Vector<S>; 2]) -> Vector<S> {
        x + y
    }
}

/// Returns the shape as a number of rows and the size of the last dimension.
fn as_rows(x: &FlexTensor) -> [usize; 2] {
    let shape = x.layout().shape();
    let rank = shape.num_dims();
    let rows = (0..rank - 1).map(|i| shape[i]).product();
    [rows, shape[rank - 1]]
}

/// Returns the matrix with its rows or its columns contiguous; copies only if neither are.
fn make_dense(x: FlexTensor) -> FlexTensor {
    let strides = x.layout().strides();
    match strides.contains(&1) && strides.iter().all(|stride| *stride >= 0) {
        true => x,
        false => contiguous(x),
    }
}

/// Returns a view of a [`dense`] matrix.
fn matrix(x: &FlexTensor) -> Matrix<'_> {
    let (numbers, layout) = (slice(x), x.layout());
    let strides = layout.strides();
    Matrix {
        data: &numbers[layout.start_offset().min(numbers.len())..],
        shape: dims(x),
        strides: [strides[0] as usize, strides[1] as usize],
    }
}

/// Returns `out`, row after row, in the shape of `x` with another last dimension.
fn with_last_dim(out: Vec<f32>, x: &FlexTensor, last: usize) -> FlexTensor {
    let mut shape = x.layout().shape().clone();
    let rank = shape.num_dims();
    shape[rank - 1] = last;
    tensor(out, shape)
}

/// Computes `x·weightᵀ + bias`.
pub fn forward(x: FlexTensor, weight: FlexTensor, bias: Option<FlexTensor>) -> FlexTensor {
    let (x, weight) = (contiguous(x), make_dense(weight));
    let left = Matrix::rows(slice(&x), as_rows(&x));
    let right = matrix(&weight).transposed();
    let bias = bias.map(contiguous);
    let bias = bias.as_ref().map(slice);
    let out = match packed_panels(&weight, left.shape[1]) {
        Some(panels) => product_with_panels(left, panels, bias),
        None => product_new(left, right, bias),
    };
    let d_out = match left.shape[0] {
        0 => right.shape[1],
        rows => out.len() / rows,
    };
    with_last_dim(out, &x, d_out)
}

/// Returns the panels of a weight that is stored in panels for rows of this width: everything before the marker row.
/// Returns `None` for any other weight, which is an ordinary matrix whose shape the product checks.
fn packed_panels(weight: &FlexTensor, d_in: usize) -> Option<&[f32]> {
    let [rows, width] = dims(weight);
    if rows == 0 || width == 0 || !width.is_multiple_of(PANEL) {
        return None;
    }
    let numbers = matrix(weight);
    let end = (rows - 1) * width;
    let last = numbers.data.get(end..end + PANEL)?;
    let marked = last.iter().all(|x| x.to_bits() == PANEL_MARK);
    if !marked || numbers.strides != [width, 1] {
        return None;
    }
    assert_eq!(
        width / PANEL,
        d_in,
        "a weight in panels for rows of its width"
    );
    Some(&numbers.data[..end])
}

/// Computes `grad·weight`.
pub fn input_gradient(grad: FlexTensor, weight: FlexTensor) -> FlexTensor {
    let (grad, weight) = (contiguous(grad), make_dense(weight));
    let left = Matrix::rows(slice(&grad), as_rows(&grad));
    let right = matrix(&weight);
    with_last_dim(product_new(left, right, None), &grad, right.shape[1])
}

/// Computes `gradᵀ·x` over all positions.
pub fn weight_gradient(x: FlexTensor, grad: FlexTensor) -> FlexTensor {
    let (x, grad) = (contiguous(x), contiguous(grad));
    let left = Matrix::rows(slice(&grad), as_rows(&grad)).transposed();
    let right = Matrix::rows(slice(&x), as_rows(&x));
    let shape = [left.shape[0], right.shape[1]];
    tensor(product_new(left, right, None), shape)
}

/// Number of rows that are summed into one partial sum; fixed, so that the order of additions is.
const ROWS: usize = 128;

/// Sums over all but the last dimension.
pub fn bias_gradient(grad: FlexTensor) -> FlexTensor {
    let grad = contiguous(grad);
    let [_, width] = as_rows(&grad);
    tensor(sum_of_rows(slice(&grad), width), [width])
}

/// Returns the sum of rows of this width.
pub fn sum_of_rows(elements: &[f32], width: usize) -> Vec<f32> {
    if elements.is_empty() || width == 0 {
        return vec![0.0; width];
    }
    let partial = |chunk: &[f32]| {
        let mut sum = chunk[..width].to_vec();
        for row in chunk[width..].chunks_exact(width) {
            map_in_place(Sum, &mut sum, [row]);
        }
        sum
    };
    let mut partials: Vec<Vec<f32>> = if elements.len() <= SINGLE_THREAD_LEN {
        elements.chunks(ROWS * width).map(partial).collect()
    } else {
        threads::map(elements.chunks(ROWS * width), partial)
    };
    let rest = partials.split_off(1);
    let mut sum = partials.swap_remove(0);
    for part in &rest {
        map_in_place(Sum, &mut sum, [part]);
    }
    sum
}

/// Computes `x + y`, in place if nothing else refers to the buffer of either.
pub fn add(x: FlexTensor, y: FlexTensor) -> FlexTensor {
    if y.is_unique() && !x.is_unique() {
        elementwise(Sum, y, [x])
    } else {
        elementwise(Sum, x, [y])
    }
}
