//! The way forward: queries c meet the keys b of their chunk, and the states before it.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::{Problem, Sizes, Task};
use crate::kernel::flex::buffer::{Shared, room, tensor, zeros};
use crate::kernel::flex::chunks::{Chunk, Decays, Times, scaled, weights};
use crate::kernel::flex::product::{Matrix, Put, product};
use crate::kernel::flex::simd::{Vector, map_in_place, run};
use crate::kernel::flex::strips::{load, store};

/// The result, with the last states behind it where they are asked for, and if `saving` the states before the chunks that have
/// one, which has no elements otherwise.
pub fn forward(problem: &Problem, state: Option<&[f32]>, saving: bool) -> (FlexTensor, FlexTensor) {
    let Sizes { batch, seq, n, .. } = problem.sizes;
    let channels = problem.sizes.channels();
    let last = problem.settings.last;
    let rows = batch * seq + if last { batch * n } else { 0 };
    let kept = if saving { problem.kept } else { 0 };
    let mut out = zeros(rows * channels);
    let mut states = zeros(kept * n * channels);
    let (to, to_states) = (Shared::new(&mut out), Shared::new(&mut states));
    problem.each(|task| {
        let mut walk = Walk::new(problem, &task, state);
        let chunks = &problem.rows[task.row];
        for (number, chunk) in chunks.iter().enumerate() {
            match chunk.kept {
                Some(kept) if saving => {
                    let place = problem.states(&task, kept);
                    // SAFETY: the states of these heads before this chunk are this task's alone.
                    let to = unsafe { to_states.row(place.start, place.len()) };
                    to.copy_from_slice(&walk.state);
                }
                Some(_) => {}
                None => walk.state.fill(0.0),
            }
            walk.chunk(chunk, last || number + 1 < chunks.len(), &to);
        }
        if last {
            walk.write_state(batch * seq, &to);
        }
    });
    (
        tensor(out, [rows, channels]),
        tensor(states, [kept, n * channels]),
    )
}

/// A task on its way along a row.
struct Walk<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task,
    /// The states of its heads side by side, `[n, wide]`.
    state: Vec<f32>,
    /// Channels of its heads.
    wide: usize,
}

impl<'a> Walk<'a> {
    fn new(problem: &'a Problem<'a>, task: &'a Task, state: Option<&[f32]>) -> Self {
        let Sizes { d_head, n, .. } = problem.sizes;
        let (channels, wide) = (problem.sizes.channels(), task.heads.len() * d_head);
        let mut own = vec![0.0; n * wide];
        if let Some(state) = state {
            let rows = state[task.row * n * channels..].chunks_exact(channels);
            let first = task.heads.start * d_head;
            for (to, row) in own.chunks_exact_mut(wide).zip(rows) {
                to.copy_from_slice(&row[first..first + wide]);
            }
        }
        Self {
            problem,
            task,
            state: own,
            wide,
        }
    }

    /// The results of a chunk and, if it `moves`, the state after it.
    fn chunk(&mut self, chunk: &Chunk, moves: bool, to: &Shared) {
        let (problem, task, wide) = (self.problem, self.task, self.wide);
        let Sizes { d_head, n, .. } = problem.sizes;
        let len = chunk.positions.len();
        let [b, c] = [0, 1].map(|part| problem.directions(task, chunk, part));
        let mut scores = room(len * len);
        product(&mut scores, c, b.transposed(), Put::TILE);
        let mut before = room(len * wide);
        match chunk.kept {
            Some(_) => product(
                &mut before,
                c,
                Matrix::rows(&self.state, [n, wide]),
                Put::TILE,
            ),
            None => before.fill(0.0),
        }
        let mut written = room(len * wide);
        let mut seen = room(len * len);
        let mut inside = room(len * d_head);
        for (number, head) in task.heads.clone().enumerate() {
            let decays = problem.decays(task, chunk, head);
            let of_head = number * d_head;
            for (i, at) in chunk.positions.clone().enumerate() {
                let x = problem.x(task, at, head);
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
                problem,
                task,
                chunk,
                head,
                decays: &decays,
                inside: &inside,
                before: &before[of_head..],
                wide,
                to,
            });
            if !moves {
                continue;
            }
            for (i, row) in written.chunks_exact_mut(wide).enumerate() {
                let row = &mut row[of_head..of_head + d_head];
                map_in_place(Times(decays.left[i]), row, []);
            }
            if chunk.kept.is_some() {
                for row in self.state.chunks_exact_mut(wide) {
                    let row = &mut row[of_head..of_head + d_head];
                    map_in_place(Times(decays.end()), row, []);
                }
            }
        }
        if moves {
            let written = Matrix::rows(&written, [len, wide]);
            product(&mut self.state, b.transposed(), written, Put::ADD_TILE);
        }
    }

    /// Writes the state behind `first` rows of results.
    fn write_state(&self, first: usize, to: &Shared) {
        let Sizes { d_head, n, .. } = self.problem.sizes;
        let channels = self.problem.sizes.channels();
        for (number, row) in self.state.chunks_exact(self.wide).enumerate() {
            let at = (first + self.task.row * n + number) * channels;
            // SAFETY: this row's states of these channels are this task's alone.
            let to = unsafe { to.row(at + self.task.heads.start * d_head, self.wide) };
            to.copy_from_slice(row);
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
        let (problem, d_head) = (self.problem, self.problem.sizes.d_head);
        let skip = Vector::splat(simd, problem.inputs.skip[self.head]);
        for (i, at) in self.chunk.positions.clone().enumerate() {
            let x = problem.x(self.task, at, self.head);
            let inside = &self.inside[i * d_head..(i + 1) * d_head];
            let before = &self.before[i * self.wide..i * self.wide + d_head];
            let since = skip.same(self.decays.since[i]);
            let place = problem.place(self.task, at, self.head);
            // SAFETY: this head's numbers of this position are the calling task's alone.
            let y = unsafe { self.to.row(place, d_head) };
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let sum = load(simd, before, lane).mul_add(since, load(simd, inside, lane));
                let sum = load(simd, x, lane).mul_add(skip, sum);
                store(simd, sum, y, lane);
            }
        }
    }
}
