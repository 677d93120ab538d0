//! The gradients of the values of a chunk of a head, and the sums over its channels that form the gradients of
//! decays.

use pulp::{Simd, WithSimd};

use super::backward::BackwardArgs;
use crate::kernel::flex::chunk_scan::Task;
use crate::kernel::flex::chunks::Chunk;
use crate::kernel::flex::simd::Vector;
use crate::kernel::flex::strips::{load, store};
use crate::kernel::ssd::CHUNK;

/// Writes the gradients of the values of a chunk of a head, which are y; returns g·o − y·v at each position.
pub struct Positions<'a> {
    pub work: &'a BackwardArgs<'a>,
    pub task: &'a Task,
    pub chunk: &'a Chunk,
    pub head: usize,
    /// y, in rows of `wide` elements.
    pub changes: &'a [f32],
    pub wide: usize,
}

impl WithSimd for Positions<'_> {
    type Output = [f32; CHUNK];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f32; CHUNK] {
        let (work, problem) = (self.work, self.work.problem);
        let d_head = problem.layout.sizes.d_head;
        let mut sums = [0.0; CHUNK];
        for ((i, at), sum) in self.chunk.positions.clone().enumerate().zip(&mut sums) {
            let value = problem.value(self.task, at, self.head);
            let place = problem.layout.place(self.task, at, self.head);
            let [grad, out] = [work.grad, work.out].map(|all| &all[place.clone()]);
            let change = &self.changes[i * self.wide..i * self.wide + d_head];
            // SAFETY: only the calling task writes this head's elements of this position.
            let to = unsafe { work.mixed.row(value.start, d_head) };
            let value = &problem.inputs.mixed[value];
            let mut all = Vector::splat(simd, 0.0);
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let change = load(simd, change, lane);
                all = load(simd, grad, lane).mul_add(load(simd, out, lane), all);
                all = (-change).mul_add(load(simd, value, lane), all);
                store(simd, change, to, lane);
            }
            *sum = all.sum();
        }
        sums
    }
}
