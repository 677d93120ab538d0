//! Layer and RMS normalisation, one row at a time. The backward pass recomputes the row's mean and scale, which costs
//! less than keeping them.

use std::mem::MaybeUninit;

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::buffer::{
    PIECE_LEN, ZEROED_PIECE_LEN, build_uninit, build_uninit_with, contiguous, fill_zeros, slice,
    tensor,
};
use super::linear::Sum;
use super::simd::{Vector, map_in_place, row_sum, run};
use crate::kernel::extension::NormSettings;

/// Returns a row's mean (0 if not centred) and the inverse of its scale.
#[inline(always)]
fn statistics<S: Simd>(simd: S, row: &[f32], settings: NormSettings) -> (f32, f32) {
    let len = row.len() as f32;
    let mean = if settings.centred {
        row_sum(simd, [row], |[x]| x) / len
    } else {
        0.0
    };
    let centre = Vector::splat(simd, mean);
    let variance = row_sum(simd, [row], |[x]| (x - centre) * (x - centre)) / len;
    (mean, 1.0 / (variance + settings.eps as f32).sqrt())
}

struct Forward<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    beta: Option<&'a [f32]>,
    settings: NormSettings,
    /// Output, of which every element is written.
    out: &'a mut [MaybeUninit<f32>],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        assert!(self.x.len() == self.out.len() && self.out.len().is_multiple_of(width));
        let rows = self.x.chunks_exact(width);
        for (x, out) in rows.zip(self.out.chunks_exact_mut(width)) {
            let (mean, inverse) = statistics(simd, x, self.settings);
            match self.beta {
                Some(beta) => {
                    let each = x.iter().zip(self.gamma).zip(beta).zip(out);
                    each.for_each(|(((x, g), b), y)| {
                        y.write((x - mean) * inverse * g + b);
                    });
                }
                None => {
                    let each = x.iter().zip(self.gamma).zip(out);
                    each.for_each(|((x, g), y)| {
                        y.write((x - mean) * inverse * g);
                    });
                }
            }
        }
    }
}

/// Normalises over the last dimension.
pub fn forward(
    x: FlexTensor,
    gamma: Option<FlexTensor>,
    beta: Option<FlexTensor>,
    settings: NormSettings,
) -> FlexTensor {
    let x = contiguous(x);
    let width = last_dim(&x);
    let (gamma, beta) = vectors(width, gamma, beta);
    let work = |first: usize, out: &mut [MaybeUninit<f32>]| {
        run(Forward {
            x: &slice(&x)[first..first + out.len()],
            gamma: slice(&gamma),
            beta: beta.as_ref().map(slice),
            settings,
            out,
        });
    };
    // SAFETY: `Forward` writes all of its output.
    let out = unsafe { build_uninit(slice(&x).len(), row_piece_len(PIECE_LEN, width), work) };
    tensor(out, x.layout().shape().clone())
}

struct ForwardOfSum<'a> {
    terms: [&'a [f32]; 2],
    factor: f32,
    gamma: &'a [f32],
    beta: Option<&'a [f32]>,
    settings: NormSettings,
    sum: &'a mut [f32],
    /// Normalised output, of which every element is written.
    out: &'a mut [MaybeUninit<f32>],
}

impl WithSimd for ForwardOfSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        assert!(self.sum.len() == self.out.len() && self.out.len().is_multiple_of(width));
        let [x, y] = self.terms.map(|term| term.chunks_exact(width));
        let rows = self.sum.chunks_exact_mut(width);
        let rows = rows.zip(self.out.chunks_exact_mut(width));
        for ((sum, out), (x, y)) in rows.zip(x.zip(y)) {
            let terms = x.iter().zip(y);
            let each = sum.iter_mut().zip(terms);
            each.for_each(|(sum, (x, y))| *sum = x * self.factor + y);
            let row = Forward {
                x: sum,
                gamma: self.gamma,
                beta: self.beta,
                settings: self.settings,
                out,
            };
            row.with_simd(simd);
        }
    }
}

/// Returns `factor·x + y`, and the same normalised over the last dimension.
pub fn forward_of_sum(
    terms: [FlexTensor; 2],
    factor: f64,
    [gamma, beta]: [Option<FlexTensor>; 2],
    settings: NormSettings,
) -> [FlexTensor; 2] {
    let terms = terms.map(contiguous);
    let width = last_dim(&terms[0]);
    let (gamma, beta) = vectors(width, gamma, beta);
    let len = slice(&terms[0]).len();
    let piece = row_piece_len(ZEROED_PIECE_LEN, width);
    let work = |i: usize, [sum, out]: [&mut [MaybeUninit<f32>]; 2]| {
        run(ForwardOfSum {
            terms: terms
                .each_ref()
                .map(|x| &slice(x)[i * piece..][..out.len()]),
            factor: factor as f32,
            gamma: slice(&gamma),
            beta: beta.as_ref().map(slice),
            settings,
            sum: fill_zeros(sum),
            out,
        });
    };
    let sizes = ([len; 2], [piece; 2]);
    let each = |(): &mut (), i, parts: [&mut [MaybeUninit<f32>]; 2]| work(i, parts);
    // SAFETY: the sum starts as zeros, and `ForwardOfSum` writes all of its output.
    let made = unsafe { build_uninit_with(sizes.0, sizes.1, 0.., || (), each) };
    let shape = terms[0].layout().shape();
    made.map(|numbers| tensor(numbers, shape.clone()))
}

struct Backward<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    grad: &'a [f32],
    settings: NormSettings,
    /// Gradient of x, of which every element is written.
    d_x: &'a mut [MaybeUninit<f32>],
    d_gamma: &'a mut [f32],
    d_beta: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        let len = self.d_x.len();
        assert!(self.x.len() == len && self.grad.len() == len && len.is_multiple_of(width));
        assert!(self.d_gamma.len() == width && self.d_beta.len() == width);
        let rows = self.x.chunks_exact(width);
        let rows = rows.zip(self.grad.chunks_exact(width));
        for ((x, grad), d_x) in rows.zip(self.d_x.chunks_exact_mut(width)) {
            let (mean, inverse) = statistics(simd, x, self.settings);
            let len = width as f32;
            let centre = Vector::splat(simd, mean);
            let slope = row_sum(simd, [x, grad, self.gamma], |[x, g, gamma]| {
                (x - centre) * (g * gamma)
            });
            let slope = slope * inverse / len;
            let shift = if self.settings.centred {
                row_sum(simd, [grad, self.gamma], |[g, gamma]| g * gamma) / len
            } else {
                0.0
            };
            let sums = self.d_gamma.iter_mut().zip(self.d_beta.iter_mut());
            let inputs = x.iter().zip(grad).zip(self.gamma);
            for (((d_x, (d_gamma, d_beta)), ((x, g), gamma)), _) in
                d_x.iter_mut().zip(sums).zip(inputs).zip(0..width)
            {
                let normal = (x - mean) * inverse;
                d_x.write((g * gamma - shift - normal * slope) * inverse);
                *d_gamma += g * normal;
                *d_beta += g;
            }
        }
    }
}

/// Returns the gradients of x, gamma and beta.
pub fn backward(
    x: FlexTensor,
    gamma: Option<FlexTensor>,
    grad: FlexTensor,
    settings: NormSettings,
) -> [FlexTensor; 3] {
    let (x, grad) = (contiguous(x), contiguous(grad));
    let width = last_dim(&x);
    let (gamma, _) = vectors(width, gamma, None);
    assert_eq!(
        slice(&x).len(),
        slice(&grad).len(),
        "a gradient of each number"
    );
    let len = slice(&x).len();
    let piece = row_piece_len(PIECE_LEN, width);
    let pieces = len.div_ceil(piece);
    let sums = 2 * width.max(1);
    let work = |i: usize, [d_x, sums]: [&mut [MaybeUninit<f32>]; 2]| {
        let range = i * piece..i * piece + d_x.len();
        let (d_gamma, d_beta) = fill_zeros(sums).split_at_mut(width);
        run(Backward {
            x: &slice(&x)[range.clone()],
            gamma: slice(&gamma),
            grad: &slice(&grad)[range],
            settings,
            d_x,
            d_gamma,
            d_beta,
        });
    };
    let lens = [len, pieces * sums];
    let each = |(): &mut (), i, parts: [&mut [MaybeUninit<f32>]; 2]| work(i, parts);
    // SAFETY: the sums start as zeros, and `Backward` writes all of the gradient of x.
    let [d_x, partial] = unsafe { build_uninit_with(lens, [piece, sums], 0.., || (), each) };
    let mut total = vec![0.0; 2 * width];
    for part in partial.chunks_exact(sums) {
        map_in_place(Sum, &mut total, [part]);
    }
    let d_beta = total.split_off(width);
    let shape = x.layout().shape().clone();
    [
        tensor(d_x, shape),
        tensor(total, [width]),
        tensor(d_beta, [width]),
    ]
}

/// Returns one gamma per column, 1 if there is no gamma, and one beta per column if there is a beta.
fn vectors(
    width: usize,
    gamma: Option<FlexTensor>,
    beta: Option<FlexTensor>,
) -> (FlexTensor, Option<FlexTensor>) {
    let gamma = gamma.map_or_else(|| tensor(vec![1.0; width], [width]), contiguous);
    let beta = beta.map(contiguous);
    assert_eq!(slice(&gamma).len(), width, "one gamma a column");
    if let Some(beta) = &beta {
        assert_eq!(slice(beta).len(), width, "one beta a column");
    }
    (gamma, beta)
}

/// Returns the size of the last dimension.
pub fn last_dim(x: &FlexTensor) -> usize {
    let shape = x.layout().shape();
    shape[shape.num_dims() - 1]
}

/// Returns the number of elements of a piece of whole rows: at most `most`, but at least one row.
pub fn row_piece_len(most: usize, width: usize) -> usize {
    ((most / width.max(1)).max(1) * width).max(1)
}
