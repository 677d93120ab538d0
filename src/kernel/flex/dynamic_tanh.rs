//! Dynamic tanh on the CPU, one row at a time. Gradients of alpha, gamma and beta are summed within pieces of whole
//! rows, then over the pieces in their order, so they do not depend on the number of threads.

use std::mem::MaybeUninit;

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::buffer::{
    PIECE_LEN, build_uninit, build_uninit_with, contiguous, fill_zeros, slice, tensor,
};
use super::linear::Sum;
use super::math::tanh;
use super::norm::{last_dim, row_piece_len};
use super::simd::{Elementwise, Vector, map_in_place, map_new, run};
use crate::kernel::dynamic_tanh::extension::{
    DynamicTanhBackwardOps, DynamicTanhOps, DynamicTanhSaved,
};
use crate::kernel::profile::timed;

/// Computes `gamma·tanh(alpha·x) + beta`; the field is alpha.
#[derive(Clone, Copy)]
struct Value(f32);

impl Elementwise<3> for Value {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, gamma, beta]: [Vector<S>; 3]) -> Vector<S> {
        tanh(x * self.0).mul_add(gamma, beta)
    }
}

impl DynamicTanhOps for Flex {
    fn dynamic_tanh(
        x: FlexTensor,
        alpha: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
    ) -> FlexTensor {
        let [x, alpha, gamma, beta] = [x, alpha, gamma, beta].map(contiguous);
        timed("dynamic tanh", || forward(&x, &alpha, [&gamma, &beta]))
    }
}

impl DynamicTanhBackwardOps for Flex {
    fn dynamic_tanh_backward(saved: DynamicTanhSaved<Self>, grad: FlexTensor) -> [FlexTensor; 4] {
        let DynamicTanhSaved { x, alpha, gamma } = saved;
        let [x, alpha, gamma, grad] = [x, alpha, gamma, grad].map(contiguous);
        timed("dynamic tanh, backward", || {
            backward([&x, &grad], &alpha, &gamma)
        })
    }
}

fn forward(x: &FlexTensor, alpha: &FlexTensor, vectors: [&FlexTensor; 2]) -> FlexTensor {
    let (x, width) = (x.clone(), last_dim(x));
    let value = Value(number(alpha));
    let [gamma, beta] = vectors.map(slice);
    assert!(gamma.len() == width && beta.len() == width, "one a column");
    let work = |first: usize, out: &mut [MaybeUninit<f32>]| {
        let rows = slice(&x)[first..first + out.len()].chunks_exact(width);
        for (x, out) in rows.zip(out.chunks_exact_mut(width)) {
            map_new(value, [x, gamma, beta], out);
        }
    };
    // SAFETY: `map_new` writes all of a row, and a piece consists of whole rows.
    let out = unsafe { build_uninit(slice(&x).len(), row_piece_len(PIECE_LEN, width), work) };
    tensor(out, x.layout().shape().clone())
}

/// The backward pass of some rows.
struct Backward<'a> {
    alpha: f32,
    x: &'a [f32],
    grad: &'a [f32],
    gamma: &'a [f32],
    /// Output: the gradient of x, of which every element is written.
    d_x: &'a mut [MaybeUninit<f32>],
    /// Sums over the rows: gradients of gamma, of beta, and of alpha.
    sums: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        let len = self.d_x.len();
        assert!(self.x.len() == len && self.grad.len() == len && len.is_multiple_of(width));
        let (d_gamma, rest) = self.sums.split_at_mut(width);
        let (d_beta, d_alpha) = rest.split_at_mut(width);
        let rows = self.x.chunks_exact(width);
        let rows = rows.zip(self.grad.chunks_exact(width));
        for ((x, grad), d_x) in rows.zip(self.d_x.chunks_exact_mut(width)) {
            let row = Row {
                alpha: self.alpha,
                inputs: [x, grad, self.gamma],
                outputs: [fill_zeros(d_x), &mut *d_gamma, &mut *d_beta],
            };
            d_alpha[0] += row.with_simd(simd);
        }
    }
}

/// The backward pass of one row.
struct Row<'a> {
    alpha: f32,
    /// x, the output's gradient, and gamma.
    inputs: [&'a [f32]; 3],
    /// Gradient of x, and the sums of the gradients of gamma and beta, to which the row's are added.
    outputs: [&'a mut [f32]; 3],
}

impl WithSimd for Row<'_> {
    /// The row's gradient of alpha.
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let alpha = self.alpha;
        // Gradients of x, gamma and alpha.
        let gradients = |[x, g, gamma]: [Vector<S>; 3]| {
            let t = tanh(x * alpha);
            let slope = (x.splat_like(1.0) - t * t) * (g * gamma);
            [slope * alpha, g * t, slope * x]
        };
        let len = self.inputs[0].len();
        let inputs = self.inputs.map(|x| &x[..len]);
        let heads = inputs.map(|x| S::as_simd_f32s(x).0);
        let tails = inputs.map(|x| S::as_simd_f32s(x).1);
        let [d_x, d_gamma, d_beta] = self.outputs.map(|x| S::as_mut_simd_f32s(&mut x[..len]));
        let mut of_alpha = Vector::splat(simd, 0.0);
        let sums = d_gamma.0.iter_mut().zip(d_beta.0.iter_mut());
        for (i, (d_x, (d_gamma, d_beta))) in d_x.0.iter_mut().zip(sums).enumerate() {
            let inputs = heads.map(|head| Vector::new(simd, head[i]));
            let [x, gamma, alpha] = gradients(inputs);
            *d_x = x.lanes();
            *d_gamma = (Vector::new(simd, *d_gamma) + gamma).lanes();
            *d_beta = (Vector::new(simd, *d_beta) + inputs[1]).lanes();
            of_alpha = of_alpha + alpha;
        }
        if !d_x.1.is_empty() {
            // Lanes past the end of the row have zero gradient.
            let load = |tail: &[f32]| Vector::new(simd, simd.partial_load_f32s(tail));
            let inputs = tails.map(load);
            let [x, gamma, alpha] = gradients(inputs);
            simd.partial_store_f32s(d_x.1, x.lanes());
            let gamma = load(&*d_gamma.1) + gamma;
            simd.partial_store_f32s(d_gamma.1, gamma.lanes());
            let beta = load(&*d_beta.1) + inputs[1];
            simd.partial_store_f32s(d_beta.1, beta.lanes());
            of_alpha = of_alpha + alpha;
        }
        of_alpha.sum()
    }
}

fn backward(
    [x, grad]: [&FlexTensor; 2],
    alpha: &FlexTensor,
    gamma: &FlexTensor,
) -> [FlexTensor; 4] {
    let (shape, width, alpha) = (x.layout().shape().clone(), last_dim(x), number(alpha));
    let [x, grad, gamma] = [x, grad, gamma].map(slice);
    assert_eq!(x.len(), grad.len(), "a gradient of each number");
    assert_eq!(gamma.len(), width, "one gamma a column");
    let piece = row_piece_len(PIECE_LEN, width);
    let sums = 2 * width + 1;
    let each = |(): &mut (), i: usize, [d_x, sums]: [&mut [MaybeUninit<f32>]; 2]| {
        let range = i * piece..i * piece + d_x.len();
        run(Backward {
            alpha,
            x: &x[range.clone()],
            grad: &grad[range],
            gamma,
            d_x,
            sums: fill_zeros(sums),
        });
    };
    let lens = [x.len(), x.len().div_ceil(piece) * sums];
    // SAFETY: the sums start as zeros, and so does each row of the gradient of x.
    let [d_x, partial] = unsafe { build_uninit_with(lens, [piece, sums], 0.., || (), each) };
    let mut total = vec![0.0; sums];
    for part in partial.chunks_exact(sums) {
        map_in_place(Sum, &mut total, [part]);
    }
    let d_alpha = total.split_off(2 * width);
    let d_beta = total.split_off(width);
    [
        tensor(d_x, shape),
        tensor(d_alpha, [1]),
        tensor(total, [width]),
        tensor(d_beta, [width]),
    ]
}

/// Returns the only element of a tensor.
fn number(x: &FlexTensor) -> f32 {
    let numbers = slice(x);
    assert_eq!(numbers.len(), 1, "one alpha");
    numbers[0]
}
