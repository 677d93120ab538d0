//! Optimizer steps other than AdamW: one pass over memory, in place, on all threads.

use burn_flex::FlexTensor;
use pulp::Simd;

use super::buffer::{PIECE_LEN, contiguous, slice, slice_mut};
use super::optim::{Mean, MeanSquare, into_owned};
use super::simd::{Elementwise, Vector, map_in_place};
use super::threads;
use crate::kernel::{AdaptiveArgs, AdoptArgs};

/// Number of elements per block, so that later passes of a step find them in cache.
const BLOCK: usize = 2048;

/// The parameter's step along a mean and another tensor, divided by a root.
#[derive(Clone, Copy)]
struct AdaptiveUpdate {
    keep: f32,
    first: f32,
    other: f32,
    root: f32,
    eps: f32,
    lr: f32,
}

impl Elementwise<4> for AdaptiveUpdate {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [param, m, v, x]: [Vector<S>; 4]) -> Vector<S> {
        let scale = v.sqrt().affine(self.root, self.eps);
        let along = m.mul_add(m.splat_like(self.first), x * self.other);
        param * self.keep - along / scale * self.lr
    }
}

/// The update of a mean of gradients, each divided by the root of the earlier mean of squares; NaN propagates.
#[derive(Clone, Copy)]
struct AdoptMean {
    mean: Mean,
    eps: f32,
    limit: f32,
}

impl Elementwise<3> for AdoptMean {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, [m, grad, v]: [Vector<S>; 3]) -> Vector<S> {
        let root = v.sqrt();
        let normed = grad / root.max(root.splat_like(self.eps)).unless_nan(root);
        let limit = normed.splat_like(self.limit);
        let clipped = normed.max(-limit).min(limit).unless_nan(normed);
        self.mean.apply(simd, [m, clipped])
    }
}

/// The parameter's step along a mean.
#[derive(Clone, Copy)]
struct MeanUpdate {
    keep: f32,
    lr: f32,
}

impl Elementwise<2> for MeanUpdate {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [param, m]: [Vector<S>; 2]) -> Vector<S> {
        param * self.keep - m * self.lr
    }
}

/// Takes the step of [`AdaptiveArgs`] on parameter and moments, along the gradient and another tensor.
pub fn adaptive_step(
    moved: [FlexTensor; 3],
    given: [FlexTensor; 2],
    args: AdaptiveArgs,
) -> [FlexTensor; 3] {
    let (mean, square) = (Mean::of(args.betas[0]), MeanSquare::of(args.betas[1]));
    let along = AdaptiveUpdate {
        keep: args.keep as f32,
        first: args.first as f32,
        other: args.other as f32,
        root: args.root as f32,
        eps: args.eps as f32,
        lr: args.lr as f32,
    };
    in_blocks(moved, given, |[param, m, v], [grad, x]| {
        map_in_place(mean, m, [grad]);
        map_in_place(square, v, [grad]);
        map_in_place(along, param, [&*m, &*v, x]);
    })
}

/// Takes the step of [`AdoptArgs`] on parameter and moments.
pub fn adopt_step(moved: [FlexTensor; 3], grad: FlexTensor, args: AdoptArgs) -> [FlexTensor; 3] {
    let normed = AdoptMean {
        mean: Mean::of(args.betas[0]),
        eps: args.eps as f32,
        limit: args.limit as f32,
    };
    let square = MeanSquare::of(args.betas[1]);
    let down = MeanUpdate {
        keep: args.keep as f32,
        lr: args.lr as f32,
    };
    in_blocks(moved, [grad], |[param, m, v], [grad]| {
        map_in_place(normed, m, [grad, &*v]);
        map_in_place(down, param, [&*m]);
        map_in_place(square, v, [grad]);
    })
}

/// Returns `decay·mean + (1 − decay)·value`.
pub fn mean_step(mean: FlexTensor, value: FlexTensor, decay: f64) -> FlexTensor {
    let rule = Mean::of(decay);
    let [mean] = in_blocks([mean], [value], |[mean], [value]| {
        map_in_place(rule, mean, [value]);
    });
    mean
}

/// Applies `rule` block by block to the `moved` tensors, each with the same block of the `given` ones; all have one
/// shape. Buffers that something else refers to are copied first.
fn in_blocks<const N: usize, const M: usize>(
    moved: [FlexTensor; N],
    given: [FlexTensor; M],
    rule: impl Fn([&mut [f32]; N], [&[f32]; M]) + Sync,
) -> [FlexTensor; N] {
    let given = given.map(contiguous);
    let read = given.each_ref().map(slice);
    let mut moved = moved.map(into_owned);
    let exclusive = "a tensor that was just copied if anything else held it";
    let written = moved
        .each_mut()
        .map(|tensor| slice_mut(tensor).expect(exclusive));
    threads::for_each(pieces(written).into_iter(), |(first, mut piece)| {
        let len = piece.first().map_or(0, |part| part.len());
        for start in (0..len).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(len);
            let read = read.map(|x| &x[first + range.start..first + range.end]);
            let block = piece.each_mut().map(|part| &mut part[range.clone()]);
            rule(block, read);
        }
    });
    moved
}

/// Cuts slices of one length into pieces; each comes with the index of its first element.
fn pieces<const N: usize>(mut rest: [&mut [f32]; N]) -> Vec<(usize, [&mut [f32]; N])> {
    let len = rest.first().map_or(0, |part| part.len());
    let firsts = (0..len).step_by(PIECE_LEN);
    let pieces = firsts.map(|first| {
        let piece = rest.each_mut().map(|part| {
            let (piece, others) = std::mem::take(part).split_at_mut(PIECE_LEN.min(len - first));
            *part = others;
            piece
        });
        (first, piece)
    });
    pieces.collect()
}
