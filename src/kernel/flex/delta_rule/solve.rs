//! The triangular systems of a chunk of one head, solved by substitution: forward for the corrections, backward for
//! their gradients.

use pulp::{Simd, WithSimd};

use super::Problem;
use crate::kernel::flex::chunk_scan::Task;
use crate::kernel::flex::chunks::{Chunk, Decays};
use crate::kernel::flex::simd::Vector;
use crate::kernel::flex::strips::{load, registers, store};

/// Number of registers whose sums run side by side.
const SIDE: usize = 4;

/// Solves u_t = β_t·w_t with w_t = v_t − e_t·S k_t − Σ_{s<t} A_ts u_s, where A_ts = (k_t·k_s) times the decay between
/// them.
pub struct Corrections<'a> {
    pub problem: &'a Problem<'a>,
    pub task: &'a Task,
    pub chunk: &'a Chunk,
    pub head: usize,
    pub decays: &'a Decays,
    /// A, `[len, len]`; only the part below the diagonal is read.
    pub of_keys: &'a [f32],
    /// S k from the head's first channel on, in rows of `wide` elements.
    pub known: &'a [f32],
    pub wide: usize,
    /// Output: u from the head's first channel on, in rows of `wide` elements.
    pub corrections: &'a mut [f32],
    /// Output: w, `[len, d_head]`, if requested.
    pub errors: Option<&'a mut [f32]>,
}

impl WithSimd for Corrections<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (d_head, len) = (self.problem.layout.sizes.d_head, self.chunk.positions.len());
        for (t, at) in self.chunk.positions.clone().enumerate() {
            let value = self.problem.value(self.task, at, self.head);
            let value = &self.problem.inputs.mixed[value];
            let known = &self.known[t * self.wide..][..d_head];
            let factors = &self.of_keys[t * len..t * len + t];
            let [since, step] = [self.decays.since[t], self.decays.steps[t]];
            let (earlier, rest) = self.corrections.split_at_mut(t * self.wide);
            let correction = &mut rest[..d_head];
            for first in (0..d_head).step_by(SIDE * S::F32_LANES) {
                let mut sums = Sums::of(simd, value, first);
                sums.subtract(simd, known, since);
                for (row, factor) in earlier.chunks(self.wide).zip(factors) {
                    sums.subtract(simd, &row[..d_head], *factor);
                }
                if let Some(errors) = &mut self.errors {
                    sums.store(simd, 1.0, &mut errors[t * d_head..(t + 1) * d_head]);
                }
                sums.store(simd, step, correction);
            }
        }
    }
}

/// Solves for z, the gradient of u: z_s = (its part from outside the system)_s − Σ_{t>s} A_ts y_t, y_s = β_s z_s,
/// from the last position to the first. y is the gradient of the values.
pub struct Changes<'a> {
    pub decays: &'a Decays,
    /// A, `[len, len]`; only the part below the diagonal is read.
    pub of_keys: &'a [f32],
    /// The part of z from outside the system, `[len, d_head]`.
    pub of_corrections: &'a [f32],
    /// w, `[len, d_head]`.
    pub errors: &'a [f32],
    pub len: usize,
    pub d_head: usize,
    pub wide: usize,
    /// Output: y from the head's first channel on, in rows of `wide` elements.
    pub changes: &'a mut [f32],
    /// Output: the gradients of β, z_s·w_s.
    pub of_steps: &'a mut [f32],
}

impl WithSimd for Changes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            len, d_head, wide, ..
        } = self;
        for s in (0..len).rev() {
            let own = s * d_head..(s + 1) * d_head;
            let (outside, error) = (&self.of_corrections[own.clone()], &self.errors[own]);
            let factors = self.of_keys[s..].iter().step_by(len).skip(s + 1);
            let (before, later) = self.changes.split_at_mut(s * wide + d_head);
            let change = &mut before[s * wide..];
            // Rows of the head's own channels, from the next position on.
            let later = later.get(wide - d_head..).unwrap_or_default();
            let mut of_step = 0.0;
            for first in (0..d_head).step_by(SIDE * S::F32_LANES) {
                let mut sums = Sums::of(simd, outside, first);
                for (row, factor) in later.chunks(wide).zip(factors.clone()) {
                    sums.subtract(simd, &row[..d_head], *factor);
                }
                of_step += sums.times(simd, error);
                sums.store(simd, self.decays.steps[s], change);
            }
            self.of_steps[s] = of_step;
        }
    }
}

/// A few registers of a row, starting at element `first`. Closures would not be compiled for the machine's
/// instructions.
struct Sums<S: Simd> {
    registers: [Vector<S>; SIDE],
    first: usize,
}

impl<S: Simd> Sums<S> {
    /// Loads the registers from `row`; zeros past its end.
    #[inline(always)]
    fn of(simd: S, row: &[f32], first: usize) -> Self {
        let mut registers = [Vector::splat(simd, 0.0); SIDE];
        for (i, register) in registers.iter_mut().enumerate() {
            *register = load(simd, row, first + i * S::F32_LANES);
        }
        Self { registers, first }
    }

    /// Subtracts `factor` times a row.
    #[inline(always)]
    fn subtract(&mut self, simd: S, row: &[f32], factor: f32) {
        let factor = Vector::splat(simd, -factor);
        let (whole, place) = (registers::<S>(row), self.first / S::F32_LANES);
        if let Some(whole) = whole.get(place..place + SIDE) {
            for (sum, x) in self.registers.iter_mut().zip(whole) {
                *sum = Vector::new(simd, *x).mul_add(factor, *sum);
            }
            return;
        }
        for (i, sum) in self.registers.iter_mut().enumerate() {
            let at = self.first + i * S::F32_LANES;
            if at < row.len() {
                *sum = load(simd, row, at).mul_add(factor, *sum);
            }
        }
    }

    /// Returns the dot product with the same elements of a row.
    #[inline(always)]
    fn times(&self, simd: S, row: &[f32]) -> f32 {
        let mut all = Vector::splat(simd, 0.0);
        for (i, sum) in self.registers.iter().enumerate() {
            all = sum.mul_add(load(simd, row, self.first + i * S::F32_LANES), all);
        }
        all.sum()
    }

    /// Stores the registers times `factor`, as far as the row goes.
    #[inline(always)]
    fn store(&self, simd: S, factor: f32, row: &mut [f32]) {
        for (i, sum) in self.registers.iter().enumerate() {
            store(simd, *sum * factor, row, self.first + i * S::F32_LANES);
        }
    }
}
