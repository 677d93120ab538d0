//! Softmax cross-entropy: loss and gradient of a row are computed while it is in cache. The gradient overwrites the
//! logits if nothing else refers to them.

use burn::tensor::{DType, Shape};
use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::buffer::{PIECE_LEN, build_zeroed, contiguous, dims, slice, slice_mut, tensor};
use super::math::exp;
use super::simd::{Vector, run};
use super::threads;
use crate::kernel::IGNORE_INDEX;

/// Returns the integers of a tensor of type I32 or I64.
pub fn integers(x: FlexTensor) -> Vec<i64> {
    let x = contiguous(x);
    match x.dtype() {
        DType::I32 => x.storage::<i32>().iter().map(|&i| i.into()).collect(),
        DType::I64 => x.storage::<i64>().to_vec(),
        other => unreachable!("integer tensors are I32 or I64 here, not {other:?}"),
    }
}

/// Replaces a row by the exponentials of its elements minus the maximum; returns the maximum, the sum of the
/// exponentials, and the sum of the original row.
struct Exponentials<'a>(&'a mut [f32]);

impl WithSimd for Exponentials<'_> {
    type Output = [f32; 3];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f32; 3] {
        let (body, tail) = S::as_mut_simd_f32s(self.0);
        let mut largest = Vector::splat(simd, f32::NEG_INFINITY);
        let mut plain = Vector::splat(simd, 0.0);
        for x in body.iter() {
            let x = Vector::new(simd, *x);
            largest = largest.max(x);
            plain = plain + x;
        }
        let (mut largest, mut plain) = (largest.max_lane(), plain.sum());
        for &x in tail.iter() {
            largest = largest.max(x);
            plain += x;
        }
        let offset = Vector::splat(simd, largest);
        let mut sum = Vector::splat(simd, 0.0);
        for slot in body.iter_mut() {
            let e = exp(Vector::new(simd, *slot) - offset);
            sum = sum + e;
            *slot = e.lanes();
        }
        let mut sum = sum.sum();
        if !tail.is_empty() {
            let e = exp(Vector::new(simd, simd.partial_load_f32s(tail)) - offset);
            simd.partial_store_f32s(tail, e.lanes());
            sum += tail.iter().sum::<f32>();
        }
        [largest, sum, plain]
    }
}

/// The result of scoring a row of logits against its target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scored {
    /// Loss of the row.
    pub loss: f32,
    /// Whether the target has the highest logit; among equal ones the first counts.
    pub hit: bool,
}

/// Computes the loss of one row and overwrites the row with its gradient.
struct Row<'a> {
    row: &'a mut [f32],
    target: i64,
    smoothing: f32,
}

impl WithSimd for Row<'_> {
    type Output = Scored;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Scored {
        let Self {
            row,
            target,
            smoothing,
        } = self;
        if target == IGNORE_INDEX {
            row.fill(0.0);
            return Scored::default();
        }
        let vocab = row.len();
        let target = usize::try_from(target).ok().filter(|&t| t < vocab);
        let target = target.expect("a target is a token of the vocabulary or not scored");
        let picked = row[target];
        let [largest, sum, plain] = Exponentials(row).with_simd(simd);
        let hit = picked == largest && !row[..target].contains(&1.0);
        let (factor, spread) = (1.0 / sum, smoothing / vocab as f32);
        row.iter_mut().for_each(|e| *e = *e * factor - spread);
        row[target] -= 1.0 - smoothing;
        let lse = largest + sum.ln();
        Scored {
            loss: lse - (1.0 - smoothing) * picked - spread * plain,
            hit,
        }
    }
}

/// Returns the loss `[1]` and its gradient.
pub fn saving(logits: FlexTensor, targets: FlexTensor, smoothing: f64) -> [FlexTensor; 2] {
    let mut logits = contiguous(logits);
    let targets = integers(targets);
    let [positions, vocab] = dims(&logits);
    assert_eq!(targets.len(), positions, "one target per row of logits");
    if let Some(rows) = slice_mut(&mut logits) {
        let scored = score_rows(rows, vocab, &targets, smoothing);
        return [total(&scored), logits];
    }
    let from = slice(&logits);
    let mut rows = build_zeroed(positions * vocab, PIECE_LEN, |first, piece| {
        piece.copy_from_slice(&from[first..first + piece.len()]);
    });
    let scored = score_rows(&mut rows, vocab, &targets, smoothing);
    [total(&scored), tensor(rows, Shape::new([positions, vocab]))]
}

/// Returns the loss `[1]`.
pub fn total_only(logits: FlexTensor, targets: FlexTensor, smoothing: f64) -> FlexTensor {
    let [loss, _] = saving(logits, targets, smoothing);
    loss
}

/// Scores every row of `vocab` logits against its target; the rows become the gradients of the summed loss.
pub fn score_rows(rows: &mut [f32], vocab: usize, targets: &[i64], smoothing: f64) -> Vec<Scored> {
    let mut scored = vec![Scored::default(); targets.len()];
    let smoothing = smoothing as f32;
    let per_piece = (PIECE_LEN / vocab.max(1)).max(1);
    let work = |((rows, scored), targets): ((&mut [f32], &mut [Scored]), &[i64])| {
        let each = rows.chunks_exact_mut(vocab).zip(scored).zip(targets);
        for ((row, scored), &target) in each {
            *scored = run(Row {
                row,
                target,
                smoothing,
            });
        }
    };
    let pieces = rows.chunks_mut((per_piece * vocab).max(1));
    let pieces = pieces.zip(scored.chunks_mut(per_piece));
    threads::for_each(pieces.zip(targets.chunks(per_piece)), work);
    scored
}

fn total(scored: &[Scored]) -> FlexTensor {
    let sum: f64 = scored.iter().map(|s| f64::from(s.loss)).sum();
    tensor(vec![sum as f32], [1])
}
