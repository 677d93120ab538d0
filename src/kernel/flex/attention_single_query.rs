//! Attention of one query per head, as in decoding, where the time is spent reading every key and value once.
//!
//! Memory is prefetched, from a head's keys on into its values and from those into the next head's keys, so that the
//! stream does not stop between them.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::attention::{Problem, SINGLE_THREAD_WORK, finish_softmax};
use super::attention_heads::Heads;
use super::attention_rows::SoftmaxRow;
use super::buffer::UninitBuffer;
use super::product::{Matrix, step1, step4};
use super::simd::{fetch_from, run};
use super::threads;

/// Number of elements between the one being read and the one being prefetched.
const PREFETCH_DISTANCE: usize = 1024;

/// Number of tasks, of consecutive heads each, so that what a head prefetches is what its thread needs next.
const TASKS: usize = 8;

/// Number of elements of a cache line.
const CACHE_LINE: usize = 16;

/// Computes the outputs `[B, 1, H, D]` and log-sum-exps `[B, H, 1]` of a problem of one query without dropout.
pub fn forward(problem: &Problem, out: &UninitBuffer, lse: &UninitBuffer) {
    let [batch, heads, _, d_head] = problem.q.dims;
    let keys = problem.k.dims[2];
    let pieces = batch * heads;
    let work = |range: Range<usize>| {
        let mut scores = vec![0.0; keys];
        let (mut out, mut lse) = (out.rows(), lse.rows());
        for piece in range {
            // SAFETY: only this piece writes these rows.
            let (out, lse) = unsafe { (out.row(piece * d_head, d_head), lse.row(piece, 1)) };
            lse[0] = one_head(problem, piece, &mut scores, out);
        }
    };
    if pieces * keys * d_head <= SINGLE_THREAD_WORK {
        work(0..pieces);
    } else {
        let each = pieces.div_ceil(TASKS);
        threads::for_each(0..pieces.div_ceil(each), |task| {
            work(task * each..((task + 1) * each).min(pieces));
        });
    }
}

/// Computes one query of one head: writes its output to `out` and returns the log-sum-exp.
fn one_head<'a>(problem: &'a Problem, piece: usize, scores: &mut [f32], out: &mut [f32]) -> f32 {
    let [batch, heads, _, _] = problem.q.dims;
    let place = |piece: usize| [piece / heads, piece % heads];
    let of = |x: &'a Heads, piece: usize| {
        let [row, head] = place(piece);
        let seen = visible_keys(problem, [row, head]);
        x.rows(row, problem.kv_head(head), seen.start, seen.len())
    };
    let [row, head] = place(piece);
    let seen = visible_keys(problem, [row, head]);
    let scores = &mut scores[..seen.len()];
    let values = of(&problem.v, piece);
    let next = of(&problem.k, (piece + 1).min(batch * heads - 1));
    let these = of(&problem.k, piece);
    run(Scores {
        query: &problem.q.rows(row, head, 0, 1).data[..out.len()],
        keys: RowStream {
            rows: these,
            next: values,
        },
        scale: problem.settings.scale as f32,
        scores,
    });
    problem.finish_scores([row, head, 0], seen.start, scores, None);
    let mut state = (f32::NEG_INFINITY, 0.0);
    run(SoftmaxRow {
        row: scores,
        state: &mut state,
    });
    let (factor, lse) = finish_softmax(state);
    run(Sum {
        weights: scores,
        values: RowStream { rows: values, next },
        factor,
        out,
    });
    lse
}

/// Returns the keys that a row and head sees; without a pattern they are one range.
fn visible_keys(problem: &Problem, place: [usize; 2]) -> Range<usize> {
    let ranges = problem.visible_ranges(place, [0, 1]);
    ranges.into_iter().next().unwrap_or(0..0)
}

/// Rows that are read one after the other, and the matrix that is read after them.
struct RowStream<'a> {
    rows: Matrix<'a>,
    next: Matrix<'a>,
}

impl<'a> RowStream<'a> {
    #[inline(always)]
    fn row(&self, i: usize) -> &'a [f32] {
        &self.rows.data[i * self.rows.strides[0]..][..self.rows.shape[1]]
    }

    /// Prefetches `len` elements from `first` on of the row that is read [`AHEAD`] elements later than row `i`.
    #[inline(always)]
    fn prefetch(&self, i: usize, first: usize, len: usize) {
        let [count, width] = self.rows.shape;
        let later = i + PREFETCH_DISTANCE.div_ceil(width);
        let (of, row) = match later < count {
            true => (&self.rows, later),
            false => (&self.next, later - count),
        };
        let at = of.data.as_ptr().wrapping_add(row * of.strides[0] + first);
        for line in (0..len).step_by(CACHE_LINE) {
            fetch_from(at.wrapping_add(line));
        }
    }
}

/// Computes `scale·query·key` for every key.
struct Scores<'a> {
    query: &'a [f32],
    keys: RowStream<'a>,
    scale: f32,
    scores: &'a mut [f32],
}

impl WithSimd for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (fours, rest) = self.scores.as_chunks_mut::<4>();
        let whole = 4 * fours.len();
        for (i, scores) in fours.iter_mut().enumerate() {
            for key in 4 * i..4 * i + 4 {
                self.keys.prefetch(key, 0, self.query.len());
            }
            let key = |at| self.keys.row(4 * i + at);
            let sums = dots(simd, self.query, [key(0), key(1), key(2), key(3)]);
            for (score, sum) in scores.iter_mut().zip(sums) {
                *score = sum * self.scale;
            }
        }
        for (i, score) in rest.iter_mut().enumerate() {
            let key = self.keys.row(whole + i);
            // Same order of additions as in a group of four.
            *score = dots(simd, self.query, [key; 4])[0] * self.scale;
        }
    }
}

/// Returns the dot products of a row with four rows of its length. It is written out because a closure here would not
/// be compiled for the machine's vector registers.
#[inline(always)]
fn dots<S: Simd>(s: S, query: &[f32], [k0, k1, k2, k3]: [&[f32]; 4]) -> [f32; 4] {
    let (query, query_end) = S::as_simd_f32s(query);
    let len = query.len();
    let ((k0, end0), (k1, end1)) = (S::as_simd_f32s(k0), S::as_simd_f32s(k1));
    let ((k2, end2), (k3, end3)) = (S::as_simd_f32s(k2), S::as_simd_f32s(k3));
    let (k0, k1, k2, k3) = (&k0[..len], &k1[..len], &k2[..len], &k3[..len]);
    let (mut c0, mut c1) = (s.splat_f32s(0.0), s.splat_f32s(0.0));
    let (mut c2, mut c3) = (s.splat_f32s(0.0), s.splat_f32s(0.0));
    for i in 0..len {
        c0 = s.mul_add_e_f32s(query[i], k0[i], c0);
        c1 = s.mul_add_e_f32s(query[i], k1[i], c1);
        c2 = s.mul_add_e_f32s(query[i], k2[i], c2);
        c3 = s.mul_add_e_f32s(query[i], k3[i], c3);
    }
    if !query_end.is_empty() {
        let x = s.partial_load_f32s(query_end);
        c0 = s.mul_add_e_f32s(x, s.partial_load_f32s(end0), c0);
        c1 = s.mul_add_e_f32s(x, s.partial_load_f32s(end1), c1);
        c2 = s.mul_add_e_f32s(x, s.partial_load_f32s(end2), c2);
        c3 = s.mul_add_e_f32s(x, s.partial_load_f32s(end3), c3);
    }
    [
        s.reduce_sum_f32s(c0),
        s.reduce_sum_f32s(c1),
        s.reduce_sum_f32s(c2),
        s.reduce_sum_f32s(c3),
    ]
}

/// Computes `factor·Σ weight·value`.
struct Sum<'a> {
    weights: &'a [f32],
    values: RowStream<'a>,
    factor: f32,
    out: &'a mut [f32],
}

impl WithSimd for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self {
            weights,
            values,
            factor,
            out,
        } = self;
        let factor = s.splat_f32s(factor);
        let (body, end) = S::as_mut_simd_f32s(out);
        let (fours, ones) = body.as_chunks_mut::<4>();
        let mut first = 0;
        for slots in fours {
            let sums = columns::<S, 4>(s, weights, &values, first, step4);
            for (slot, sum) in slots.iter_mut().zip(sums) {
                *slot = s.mul_f32s(sum, factor);
            }
            first += 4 * S::F32_LANES;
        }
        for slot in ones {
            let [sum] = columns::<S, 1>(s, weights, &values, first, step1);
            *slot = s.mul_f32s(sum, factor);
            first += S::F32_LANES;
        }
        if !end.is_empty() {
            let mut sum = s.splat_f32s(0.0);
            for (i, weight) in weights.iter().enumerate() {
                let value = s.partial_load_f32s(&values.row(i)[first..]);
                sum = s.mul_add_e_f32s(s.splat_f32s(*weight), value, sum);
            }
            s.partial_store_f32s(end, s.mul_f32s(sum, factor));
        }
    }
}

/// Returns the weighted sums of `N` registers of columns, starting at column `first`.
#[inline(always)]
fn columns<S: Simd, const N: usize>(
    s: S,
    weights: &[f32],
    values: &RowStream,
    first: usize,
    step: impl Fn(S, S::f32s, [S::f32s; N], [S::f32s; N]) -> [S::f32s; N],
) -> [S::f32s; N] {
    let mut sums = [s.splat_f32s(0.0); N];
    for (i, weight) in weights.iter().enumerate() {
        values.prefetch(i, first, N * S::F32_LANES);
        let (row, _) = S::as_simd_f32s(&values.row(i)[first..]);
        if let Some(row) = row.first_chunk() {
            sums = step(s, s.splat_f32s(*weight), *row, sums);
        }
    }
    sums
}
