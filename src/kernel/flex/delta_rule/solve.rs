//! The triangular systems of a chunk of one head, by substitution: forwards the corrections, backwards their gradients.

use pulp::{Simd, WithSimd};

use super::{Problem, Task};
use crate::kernel::flex::chunks::{Chunk, Decays};
use crate::kernel::flex::simd::Vector;
use crate::kernel::flex::strips::{load, store};

/// Registers whose sums run side by side.
const SIDE: usize = 4;

/// u_t = β_t·w_t with w_t = v_t − e_t·S k_t − Σ_{s<t} A_ts u_s, where A_ts = (k_t·k_s) times the decay between them.
pub struct Corrections<'a> {
    pub problem: &'a Problem<'a>,
    pub task: &'a Task,
    pub chunk: &'a Chunk,
    pub head: usize,
    pub decays: &'a Decays,
    /// A, `[len, len]`, of which what is below the diagonal is read.
    pub of_keys: &'a [f32],
    /// S k from the head's first channel on, rows of `wide` numbers.
    pub known: &'a [f32],
    pub wide: usize,
    /// To u, from the head's first channel on, rows of `wide` numbers.
    pub corrections: &'a mut [f32],
    /// To w, `[len, d_head]`, where it is asked for.
    pub errors: Option<&'a mut [f32]>,
}

impl WithSimd for Corrections<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (d_head, len) = (self.problem.sizes.d_head, self.chunk.positions.len());
        for (t, at) in self.chunk.positions.clone().enumerate() {
            let value = self.problem.value(self.task, at, self.head);
            let value = &self.problem.inputs.mixed[value];
            let known = &self.known[t * self.wide..][..d_head];
            let factors = self.of_keys[t * len..t * len + t].iter().copied();
            let [since, step] = [self.decays.since[t], self.decays.steps[t]];
            let (earlier, rest) = self.corrections.split_at_mut(t * self.wide);
            let correction = &mut rest[..d_head];
            for first in (0..d_head).step_by(SIDE * S::F32_LANES) {
                let lane = |i: usize| first + i * S::F32_LANES;
                let mut sums: [Vector<S>; SIDE] = std::array::from_fn(|i| {
                    let known = load(simd, known, lane(i)) * since;
                    load(simd, value, lane(i)) - known
                });
                let rows = earlier.chunks(self.wide).zip(factors.clone());
                subtract(simd, rows, d_head, first, &mut sums);
                for (i, error) in sums.into_iter().enumerate() {
                    store(simd, error * step, correction, lane(i));
                    if let Some(errors) = &mut self.errors {
                        let errors = &mut errors[t * d_head..(t + 1) * d_head];
                        store(simd, error, errors, lane(i));
                    }
                }
            }
        }
    }
}

/// With z what arrives at u: z_s = (what arrives from outside)_s − Σ_{t>s} A_ts y_t, y_s = β_s z_s, from the last position to the
/// first. y is the gradient of the values.
pub struct Changes<'a> {
    pub decays: &'a Decays,
    /// A, `[len, len]`, of which what is below the diagonal is read.
    pub of_keys: &'a [f32],
    /// What arrives from outside, `[len, d_head]`.
    pub of_corrections: &'a [f32],
    /// w, `[len, d_head]`.
    pub errors: &'a [f32],
    pub len: usize,
    pub d_head: usize,
    pub wide: usize,
    /// To y, from the head's first channel on, rows of `wide` numbers.
    pub changes: &'a mut [f32],
    /// To the gradients of β, z_s·w_s.
    pub of_steps: &'a mut [f32],
}

impl WithSimd for Changes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            len, d_head, wide, ..
        } = self;
        let zero = Vector::splat(simd, 0.0);
        for s in (0..len).rev() {
            let own = s * d_head..(s + 1) * d_head;
            let (outside, error) = (&self.of_corrections[own.clone()], &self.errors[own]);
            let factors = (s + 1..len).map(|t| self.of_keys[t * len + s]);
            let (before, later) = self.changes.split_at_mut(s * wide + d_head);
            let change = &mut before[s * wide..];
            // Rows of the head's own channels, from the next position on.
            let later = later.get(wide - d_head..).unwrap_or_default();
            let mut of_step = zero;
            for first in (0..d_head).step_by(SIDE * S::F32_LANES) {
                let lane = |i: usize| first + i * S::F32_LANES;
                let mut sums: [Vector<S>; SIDE] =
                    std::array::from_fn(|i| load(simd, outside, lane(i)));
                let rows = later.chunks(wide).zip(factors.clone());
                subtract(simd, rows, d_head, first, &mut sums);
                for (i, sum) in sums.into_iter().enumerate() {
                    store(simd, sum * self.decays.steps[s], change, lane(i));
                    of_step = sum.mul_add(load(simd, error, lane(i)), of_step);
                }
            }
            self.of_steps[s] = of_step.sum();
        }
    }
}

/// Takes rows of `d_head` numbers, from `first` on, times their factors from sums.
#[inline(always)]
fn subtract<'a, S: Simd>(
    simd: S,
    rows: impl Iterator<Item = (&'a [f32], f32)>,
    d_head: usize,
    first: usize,
    sums: &mut [Vector<S>; SIDE],
) {
    let lanes = S::F32_LANES;
    let count = (d_head - first).div_ceil(lanes).min(SIDE);
    for (row, factor) in rows {
        let (row, factor) = (&row[..d_head], Vector::splat(simd, -factor));
        for (i, sum) in sums[..count].iter_mut().enumerate() {
            *sum = load(simd, row, first + i * lanes).mul_add(factor, *sum);
        }
    }
}
