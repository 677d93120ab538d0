//! Rows sorted by group: gathered, multiplied by each group's matrix, and summed back per token.
//!
//! Groups are multiplied on all threads, small ones together (`product::grouped`). A product is divided by its size
//! only, and a token's rows are added in the order of its choices, so results are bit-identical for any number of
//! threads.

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::buffer::{PIECE_LEN, build_zeroed, build_zeroed_with, contiguous, dims, slice, tensor};
use super::linear::sum_of_rows;
use super::product::{Grouped, Matrix, grouped_products};
use super::simd::{Elementwise, Vector, map, map_in_place, row_sum, run};
use crate::kernel::extension::Maybe;
use crate::kernel::grouped::Groups;
use crate::kernel::grouped::extension::{GroupedBackwardOps, GroupedOps};
use crate::kernel::profile::timed;

impl GroupedOps for Flex {
    fn gathered(x: FlexTensor, groups: Groups) -> FlexTensor {
        timed("groups: gathering", || gather(x, &groups))
    }

    fn grouped_affine(
        x: FlexTensor,
        weight: FlexTensor,
        bias: Maybe<Self>,
        groups: Groups,
    ) -> FlexTensor {
        timed("groups: linear", || {
            forward(x, weight, bias.into_option(), &groups)
        })
    }

    fn combined(y: FlexTensor, weights: Maybe<Self>, groups: Groups) -> FlexTensor {
        timed("groups: sums", || {
            combine(y, weights.into_option(), &groups)
        })
    }
}

impl GroupedBackwardOps for Flex {
    fn grouped_input_gradient(grad: FlexTensor, weight: FlexTensor, groups: &Groups) -> FlexTensor {
        timed("groups: input's gradient", || {
            input_gradient(grad, weight, groups)
        })
    }

    fn grouped_weight_gradient(x: FlexTensor, grad: FlexTensor, groups: &Groups) -> FlexTensor {
        timed("groups: weights' gradient", || {
            weight_gradient(x, grad, groups)
        })
    }

    fn grouped_bias_gradient(grad: FlexTensor, groups: &Groups) -> FlexTensor {
        timed("groups: bias's gradient", || bias_gradient(grad, groups))
    }

    fn combined_backward(
        y: FlexTensor,
        weights: FlexTensor,
        grad: FlexTensor,
        groups: &Groups,
    ) -> [FlexTensor; 2] {
        timed("groups: sums, backward", || {
            combine_backward(y, weights, grad, groups)
        })
    }
}

/// Returns the rows of a group as a matrix.
fn rows_of<'a>(x: &'a FlexTensor, groups: &Groups, group: usize) -> Matrix<'a> {
    let ([_, width], rows) = (dims(x), groups.rows_of(group));
    let numbers = &slice(x)[rows.start * width..rows.end * width];
    Matrix::rows(numbers, [rows.len(), width])
}

/// Returns the matrix of a group in `[groups, rows, columns]`.
fn matrix_of(all: &FlexTensor, group: usize) -> Matrix<'_> {
    let [_, rows, columns] = dims(all);
    let numbers = &slice(all)[group * rows * columns..][..rows * columns];
    Matrix::rows(numbers, [rows, columns])
}

/// Computes `x·weightᵀ + bias`, group by group.
fn forward(
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    groups: &Groups,
) -> FlexTensor {
    let (x, weight, bias) = (contiguous(x), contiguous(weight), bias.map(contiguous));
    let [_, d_out, _] = dims(&weight);
    let of_group = |group: usize| Grouped {
        left: rows_of(&x, groups, group),
        right: matrix_of(&weight, group).transposed(),
        row: bias
            .as_ref()
            .map(|bias| &slice(bias)[group * d_out..][..d_out]),
    };
    let products: Vec<Grouped> = (0..groups.len()).map(of_group).collect();
    tensor(grouped_products(&products), [groups.rows(), d_out])
}

/// Computes `grad·weight`, group by group.
fn input_gradient(grad: FlexTensor, weight: FlexTensor, groups: &Groups) -> FlexTensor {
    let (grad, weight) = (contiguous(grad), contiguous(weight));
    let [_, _, d_in] = dims(&weight);
    let of_group = |group: usize| Grouped {
        left: rows_of(&grad, groups, group),
        right: matrix_of(&weight, group),
        row: None,
    };
    let products: Vec<Grouped> = (0..groups.len()).map(of_group).collect();
    tensor(grouped_products(&products), [groups.rows(), d_in])
}

/// Computes `gradᵀ·x`, group by group; zeros for a group without rows.
fn weight_gradient(x: FlexTensor, grad: FlexTensor, groups: &Groups) -> FlexTensor {
    let (x, grad) = (contiguous(x), contiguous(grad));
    let ([_, d_in], [_, d_out]) = (dims(&x), dims(&grad));
    let of_group = |group: usize| Grouped {
        left: rows_of(&grad, groups, group).transposed(),
        right: rows_of(&x, groups, group),
        row: None,
    };
    let products: Vec<Grouped> = (0..groups.len()).map(of_group).collect();
    tensor(grouped_products(&products), [groups.len(), d_out, d_in])
}

/// Returns the sum of each group's rows.
fn bias_gradient(grad: FlexTensor, groups: &Groups) -> FlexTensor {
    let grad = contiguous(grad);
    let [_, width] = dims(&grad);
    let sums = (0..groups.len()).flat_map(|group| {
        let rows = groups.rows_of(group);
        sum_of_rows(&slice(&grad)[rows.start * width..rows.end * width], width)
    });
    tensor(sums.collect::<Vec<f32>>(), [groups.len(), width])
}

/// Copies the tokens' vectors to the sorted rows.
fn gather(x: FlexTensor, groups: &Groups) -> FlexTensor {
    let x = contiguous(x);
    let [_, width] = dims(&x);
    let step = width.max(1);
    let (len, piece) = (groups.rows() * width, rows_per_task(width) * step);
    let out = build_zeroed(len, piece, |first, piece| {
        for (row, out) in (first / step..).zip(piece.chunks_exact_mut(step)) {
            out.copy_from_slice(&slice(&x)[groups.token(row) * width..][..width]);
        }
    });
    tensor(out, [groups.rows(), width])
}

/// `x·weight`; the field is the weight.
#[derive(Clone, Copy)]
struct Times(f32);

impl Elementwise<1> for Times {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        x * self.0
    }
}

/// `sum + x·weight`; the field is the weight.
#[derive(Clone, Copy)]
struct PlusTimes(f32);

impl Elementwise<2> for PlusTimes {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [sum, x]: [Vector<S>; 2]) -> Vector<S> {
        x.mul_add(x.splat_like(self.0), sum)
    }
}

/// Returns for each token the sum of its rows, each multiplied by its weight.
fn combine(y: FlexTensor, weights: Option<FlexTensor>, groups: &Groups) -> FlexTensor {
    let (y, weights) = (contiguous(y), weights.map(contiguous));
    let ([_, width], choices) = (dims(&y), groups.choices());
    let step = width.max(1);
    let (len, piece) = (groups.tokens() * width, rows_per_task(width) * step);
    let out = build_zeroed(len, piece, |first, piece| {
        for (token, out) in (first / step..).zip(piece.chunks_exact_mut(step)) {
            let mut empty = true;
            for (choice, row) in groups.rows_of_token(token).iter().enumerate() {
                let Some(row) = row else { continue };
                let weight = match &weights {
                    Some(weights) => slice(weights)[token * choices + choice],
                    None => 1.0,
                };
                let y = &slice(&y)[row * width..][..width];
                match std::mem::take(&mut empty) {
                    true => map(Times(weight), [y], out),
                    false => map_in_place(PlusTimes(weight), out, [y]),
                }
            }
        }
    });
    tensor(out, [groups.tokens(), width])
}

/// Returns the gradients of the rows, and of their weights: the dot products of rows with the gradients of their
/// tokens.
fn combine_backward(
    y: FlexTensor,
    weights: FlexTensor,
    grad: FlexTensor,
    groups: &Groups,
) -> [FlexTensor; 2] {
    let (y, weights, grad) = (contiguous(y), contiguous(weights), contiguous(grad));
    let ([_, width], rows, step) = (dims(&y), groups.rows(), dims::<2>(&y)[1].max(1));
    let piece = rows_per_task(width);
    let (lens, pieces) = ([rows * step, rows], [piece * step, piece]);
    let work = |(): &mut (), i: usize, [of_y, of_rows]: [&mut [f32]; 2]| {
        let rows = (i * piece..).zip(of_y.chunks_exact_mut(step).zip(of_rows));
        for (row, (of_y, of_row)) in rows {
            let grad = &slice(&grad)[groups.token(row) * width..][..width];
            let weight = slice(&weights)[groups.choice_of_rows()[row]];
            map(Times(weight), [grad], of_y);
            *of_row = dot(grad, &slice(&y)[row * width..][..width]);
        }
    };
    let [mut of_y, of_rows] = build_zeroed_with(lens, pieces, 0.., || (), work);
    of_y.truncate(rows * width);
    let mut of_weights = vec![0.0; groups.tokens() * groups.choices()];
    for (choice, of_row) in groups.choice_of_rows().iter().zip(&of_rows) {
        of_weights[*choice] = *of_row;
    }
    let shape = [groups.tokens(), groups.choices()];
    [tensor(of_y, [rows, width]), tensor(of_weights, shape)]
}

/// Returns the dot product of two rows.
fn dot(x: &[f32], y: &[f32]) -> f32 {
    struct Kernel<'a>([&'a [f32]; 2]);
    impl WithSimd for Kernel<'_> {
        type Output = f32;
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> f32 {
            row_sum(simd, self.0, |[x, y]| x * y)
        }
    }
    run(Kernel([x, y]))
}

/// Returns the number of rows of one task.
fn rows_per_task(width: usize) -> usize {
    (PIECE_LEN / width.max(1)).max(1)
}
