//! The forward pass: the corrections of a chunk, and what its queries read of them and of the state before it.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::Problem;
use super::solve::Corrections;
use super::units::Units;
use crate::kernel::flex::buffer::{SharedBuffer, scratch_buffer};
use crate::kernel::flex::chunk_scan::{States, Task, multiply_by_state};
use crate::kernel::flex::chunks::{Chunk, Decays, weights};
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
        let units = [0, 1].map(|part| Units::new(self, task, chunk, part));
        let [q, k] = units.each_ref().map(Units::matrix);
        let [mut of_keys, mut of_queries] = [(); 2].map(|()| scratch_buffer(len * len));
        product(&mut of_keys, k, k.transposed(), WriteMode::TILE);
        product(&mut of_queries, q, k.transposed(), WriteMode::TILE);
        let [mut read, mut known] = [(); 2].map(|()| scratch_buffer(len * wide));
        multiply_by_state(&mut read, q, states.before(chunk));
        multiply_by_state(&mut known, k, states.before(chunk));
        let mut corrections = scratch_buffer(len * wide);
        let mut weighed = scratch_buffer(len * len);
        let mut inside = scratch_buffer(len * d_head);
        for (number, head) in task.heads.clone().enumerate() {
            let decays = self.decays(task, chunk, head);
            let of_head = number * d_head;
            weights(&decays, &of_keys, &mut weighed);
            run(Corrections {
                problem: self,
                task,
                chunk,
                head,
                decays: &decays,
                of_keys: &weighed,
                known: &known[of_head..],
                wide,
                corrections: &mut corrections[of_head..],
                errors: None,
            });
            weights(&decays, &of_queries, &mut weighed);
            let moved = Matrix {
                data: &corrections[of_head..],
                shape: [len, d_head],
                strides: [wide, 1],
            };
            let weighed = Matrix::rows(&weighed, [len, len]);
            product(&mut inside, weighed, moved, WriteMode::TILE);
            run(OutputSum {
                problem: self,
                task,
                chunk,
                head,
                decays: &decays,
                inside: &inside,
                read: &read[of_head..],
                wide,
                to,
            });
            if moves {
                states.decay(chunk, of_head, &decays, &mut corrections);
            }
        }
        if moves {
            states.add(k, &corrections);
        }
    }
}

/// Adds up the outputs of a chunk of a head: the parts from its own positions and from the state before it.
struct OutputSum<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task,
    chunk: &'a Chunk,
    head: usize,
    decays: &'a Decays,
    inside: &'a [f32],
    /// Products of the queries with the state, in rows of `wide` elements.
    read: &'a [f32],
    wide: usize,
    to: &'a SharedBuffer,
}

impl WithSimd for OutputSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (problem, d_head) = (self.problem, self.problem.layout.sizes.d_head);
        for (i, at) in self.chunk.positions.clone().enumerate() {
            let inside = &self.inside[i * d_head..(i + 1) * d_head];
            let read = &self.read[i * self.wide..i * self.wide + d_head];
            let since = Vector::splat(simd, self.decays.since[i]);
            let place = problem.layout.place(self.task, at, self.head);
            // SAFETY: only the calling task writes this head's elements of this position.
            let y = unsafe { self.to.row(place.start, d_head) };
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let sum = load(simd, read, lane).mul_add(since, load(simd, inside, lane));
                store(simd, sum, y, lane);
            }
        }
    }
}
