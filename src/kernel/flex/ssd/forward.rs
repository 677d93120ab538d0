//! The forward pass: the queries c read the keys b of their chunk and the state before it.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::Problem;
use crate::kernel::flex::buffer::{SharedBuffer, scratch_buffer};
use crate::kernel::flex::chunk_scan::{States, Task, multiply_by_state};
use crate::kernel::flex::chunks::{Chunk, Decays, scale_into, weights};
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::{Vector, run};
use crate::kernel::flex::strips::{load, store};

/// Returns the output, followed by the last states if they are requested, and, if `saving`, the states before the
/// chunks that have one; otherwise that tensor is empty.
pub fn forward(problem: &Problem, state: Option<&[f32]>, saving: bool) -> (FlexTensor, FlexTensor) {
    let wanted = [problem.settings.last, saving];
    let layout = &problem.layout;
    layout.forward(state, wanted, |states, chunk, moves, to| {
        problem.chunk(states, chunk, moves, to);
    })
}

impl Problem<'_> {
    /// Computes the outputs of a chunk and, if `moves`, the state after it.
    fn chunk(&self, states: &mut States, chunk: &Chunk, moves: bool, to: &SharedBuffer) {
        let (task, wide) = (states.task, states.wide);
        let (d_head, len) = (self.layout.sizes.d_head, chunk.positions.len());
        let [b, c] = [0, 1].map(|part| self.directions(task, chunk, part));
        let mut scores = scratch_buffer(len * len);
        product(&mut scores, c, b.transposed(), WriteMode::TILE);
        let mut before = scratch_buffer(len * wide);
        multiply_by_state(&mut before, c, states.before(chunk));
        let mut written = scratch_buffer(len * wide);
        let mut seen = scratch_buffer(len * len);
        let mut inside = scratch_buffer(len * d_head);
        for (number, head) in task.heads.clone().enumerate() {
            let decays = self.decays(task, chunk, head);
            let of_head = number * d_head;
            for (i, at) in chunk.positions.clone().enumerate() {
                let x = self.x(task, at, head);
                let place = i * wide + of_head;
                scale_into(decays.steps[i], x, &mut written[place..place + d_head]);
            }
            weights(&decays, &scores, &mut seen);
            let moved = Matrix {
                data: &written[of_head..],
                shape: [len, d_head],
                strides: [wide, 1],
            };
            product(
                &mut inside,
                Matrix::rows(&seen, [len, len]),
                moved,
                WriteMode::TILE,
            );
            run(OutputSum {
                problem: self,
                task,
                chunk,
                head,
                decays: &decays,
                inside: &inside,
                before: &before[of_head..],
                wide,
                to,
            });
            if moves {
                states.decay(chunk, of_head, &decays, &mut written);
            }
        }
        if moves {
            states.add(b, &written);
        }
    }
}

/// Adds up the outputs of a chunk of a head: the parts from its own positions, from the state before it, and from the
/// skip.
struct OutputSum<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task,
    chunk: &'a Chunk,
    head: usize,
    decays: &'a Decays,
    inside: &'a [f32],
    /// Products of c with the state before the chunk, in rows of `wide` elements.
    before: &'a [f32],
    wide: usize,
    to: &'a SharedBuffer,
}

impl WithSimd for OutputSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (problem, d_head) = (self.problem, self.problem.layout.sizes.d_head);
        let skip = Vector::splat(simd, problem.inputs.skip[self.head]);
        for (i, at) in self.chunk.positions.clone().enumerate() {
            let x = problem.x(self.task, at, self.head);
            let inside = &self.inside[i * d_head..(i + 1) * d_head];
            let before = &self.before[i * self.wide..i * self.wide + d_head];
            let since = skip.splat_like(self.decays.since[i]);
            let place = problem.layout.place(self.task, at, self.head);
            // SAFETY: only the calling task writes this head's elements of this position.
            let y = unsafe { self.to.row(place.start, d_head) };
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let sum = load(simd, before, lane).mul_add(since, load(simd, inside, lane));
                let sum = load(simd, x, lane).mul_add(skip, sum);
                store(simd, sum, y, lane);
            }
        }
    }
}
