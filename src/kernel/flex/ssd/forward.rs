//! The way forward: queries c meet the keys b of their chunk, and the states before it.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::Problem;
use crate::kernel::flex::buffer::{Shared, room};
use crate::kernel::flex::chunks::{Chunk, Decays, scaled, weights};
use crate::kernel::flex::product::{Matrix, Put, product};
use crate::kernel::flex::simd::{Vector, run};
use crate::kernel::flex::strips::{load, store};
use crate::kernel::flex::walk::{States, Task, found};

/// The result, with the last states behind it where they are asked for, and if `saving` the states before the chunks that have
/// one, which has no elements otherwise.
pub fn forward(problem: &Problem, state: Option<&[f32]>, saving: bool) -> (FlexTensor, FlexTensor) {
    let wanted = [problem.settings.last, saving];
    let layout = &problem.layout;
    layout.forward(state, wanted, |states, chunk, moves, to| {
        problem.chunk(states, chunk, moves, to);
    })
}

impl Problem<'_> {
    /// The results of a chunk and, if it `moves`, the state after it.
    fn chunk(&self, states: &mut States, chunk: &Chunk, moves: bool, to: &Shared) {
        let (task, wide) = (states.task, states.wide);
        let (d_head, len) = (self.layout.sizes.d_head, chunk.positions.len());
        let [b, c] = [0, 1].map(|part| self.directions(task, chunk, part));
        let mut scores = room(len * len);
        product(&mut scores, c, b.transposed(), Put::TILE);
        let mut before = room(len * wide);
        found(&mut before, c, states.before(chunk));
        let mut written = room(len * wide);
        let mut seen = room(len * len);
        let mut inside = room(len * d_head);
        for (number, head) in task.heads.clone().enumerate() {
            let decays = self.decays(task, chunk, head);
            let of_head = number * d_head;
            for (i, at) in chunk.positions.clone().enumerate() {
                let x = self.x(task, at, head);
                let place = i * wide + of_head;
                scaled(decays.steps[i], x, &mut written[place..place + d_head]);
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
                Put::TILE,
            );
            run(Join {
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

/// The results of a chunk of a head: of its positions, of the state before it, and what passes by.
struct Join<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task,
    chunk: &'a Chunk,
    head: usize,
    decays: &'a Decays,
    inside: &'a [f32],
    /// Rows of `wide` numbers.
    before: &'a [f32],
    wide: usize,
    to: &'a Shared,
}

impl WithSimd for Join<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (problem, d_head) = (self.problem, self.problem.layout.sizes.d_head);
        let skip = Vector::splat(simd, problem.inputs.skip[self.head]);
        for (i, at) in self.chunk.positions.clone().enumerate() {
            let x = problem.x(self.task, at, self.head);
            let inside = &self.inside[i * d_head..(i + 1) * d_head];
            let before = &self.before[i * self.wide..i * self.wide + d_head];
            let since = skip.same(self.decays.since[i]);
            let place = problem.layout.place(self.task, at, self.head);
            // SAFETY: this head's numbers of this position are the calling task's alone.
            let y = unsafe { self.to.row(place.start, d_head) };
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let sum = load(simd, before, lane).mul_add(since, load(simd, inside, lane));
                let sum = load(simd, x, lane).mul_add(skip, sum);
                store(simd, sum, y, lane);
            }
        }
    }
}
