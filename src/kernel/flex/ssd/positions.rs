//! The gradients of x of a chunk of a head, and the sums over its channels that form the gradients of steps.

use pulp::{Simd, WithSimd};

use super::backward::BackwardArgs;
use crate::kernel::flex::chunk_scan::Task;
use crate::kernel::flex::chunks::{Chunk, Decays};
use crate::kernel::flex::simd::Vector;
use crate::kernel::flex::strips::{load, store};
use crate::kernel::ssd::CHUNK;

/// Sums over the channels of a head at the positions of a chunk.
pub struct Sums {
    /// g·(y − skip·x).
    pub seen: [f32; CHUNK],
    /// x·v.
    pub written: [f32; CHUNK],
    /// g·x, summed over all positions.
    pub skip: f32,
}

/// Writes the gradients of x of a chunk of a head.
pub struct Positions<'a> {
    pub work: &'a BackwardArgs<'a>,
    pub task: &'a Task,
    pub chunk: &'a Chunk,
    pub head: usize,
    pub decays: &'a Decays,
    /// The part of v that comes from within the chunk, `[len, d_head]`.
    pub of_x: &'a [f32],
    /// Kᵀ b, in rows of `wide` elements.
    pub from_later: Option<&'a [f32]>,
    pub wide: usize,
}

impl WithSimd for Positions<'_> {
    type Output = Sums;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Sums {
        let (work, problem) = (self.work, self.work.problem);
        let d_head = problem.layout.sizes.d_head;
        let skip = problem.inputs.skip[self.head];
        let zero = Vector::splat(simd, 0.0);
        let mut sums = Sums {
            seen: [0.0; CHUNK],
            written: [0.0; CHUNK],
            skip: 0.0,
        };
        for (i, at) in self.chunk.positions.clone().enumerate() {
            let x = problem.x(self.task, at, self.head);
            let place = problem.layout.place(self.task, at, self.head);
            let [grad, y] = [work.grad, work.out].map(|all| &all[place.clone()]);
            let of_x = &self.of_x[i * d_head..(i + 1) * d_head];
            let later = self.from_later;
            let later = later.map(|all| &all[i * self.wide..i * self.wide + d_head]);
            let [step, left] =
                [&self.decays.steps, &self.decays.left].map(|x| zero.splat_like(x[i]));
            let first = problem.layout.position(self.task.row, at) + self.head * d_head;
            // SAFETY: only the calling task writes this head's elements of this position.
            let to = unsafe { work.mixed.row(first, d_head) };
            let (mut seen, mut written, mut passed) = (zero, zero, zero);
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let [x, grad, y, v] = [x, grad, y, of_x].map(|row| load(simd, row, lane));
                let v = match later {
                    Some(later) => load(simd, later, lane).mul_add(left, v),
                    None => v,
                };
                seen = grad.mul_add(y, seen);
                written = x.mul_add(v, written);
                passed = grad.mul_add(x, passed);
                store(simd, v.mul_add(step, grad * skip), to, lane);
            }
            let passed = passed.sum();
            sums.seen[i] = seen.sum() - skip * passed;
            sums.written[i] = written.sum();
            sums.skip += passed;
        }
        sums
    }
}
