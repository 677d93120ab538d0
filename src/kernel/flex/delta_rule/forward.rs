//! The way forward: the corrections of a chunk, what its queries see of them, and of the states before it.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::solve::Corrections;
use super::units::Units;
use super::{Problem, Sizes, Task};
use crate::kernel::flex::buffer::{Room, Shared, room, tensor, zeros};
use crate::kernel::flex::chunks::{Chunk, Decays, Times, weights};
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

/// What queries or keys find in the states before a chunk, `[len, wide]`.
pub fn found(units: Matrix, state: Option<Matrix>, wide: usize) -> Room {
    let mut found = room(units.shape[0] * wide);
    match state {
        Some(state) => product(&mut found, units, state, Put::TILE),
        None => found.fill(0.0),
    }
    found
}

impl<'a> Walk<'a> {
    fn new(problem: &'a Problem<'a>, task: &'a Task, state: Option<&[f32]>) -> Self {
        let Sizes { d_head, n, .. } = problem.sizes;
        let (channels, wide) = (problem.sizes.channels(), problem.wide(task));
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
        let units = [0, 1].map(|part| Units::new(problem, task, chunk, part));
        let [q, k] = units.each_ref().map(Units::matrix);
        let [mut of_keys, mut of_queries] = [(); 2].map(|()| room(len * len));
        product(&mut of_keys, k, k.transposed(), Put::TILE);
        product(&mut of_queries, q, k.transposed(), Put::TILE);
        let state = Matrix::rows(&self.state, [n, wide]);
        let state = chunk.kept.map(|_| state);
        let [read, known] = [q, k].map(|units| found(units, state, wide));
        let mut corrections = room(len * wide);
        let mut weighed = room(len * len);
        let mut inside = room(len * d_head);
        for (number, head) in task.heads.clone().enumerate() {
            let decays = problem.decays(task, chunk, head);
            let of_head = number * d_head;
            weights(&decays, &of_keys, &mut weighed);
            run(Corrections {
                problem,
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
            product(&mut inside, weighed, moved, Put::TILE);
            run(Join {
                problem,
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
                self.decay(chunk, of_head, &decays, &mut corrections);
            }
        }
        if moves {
            let corrections = Matrix::rows(&corrections, [len, wide]);
            product(&mut self.state, k.transposed(), corrections, Put::ADD_TILE);
        }
    }

    /// Decays a head's corrections and its state to the end of a chunk.
    fn decay(&mut self, chunk: &Chunk, of_head: usize, decays: &Decays, corrections: &mut [f32]) {
        let own = of_head..of_head + self.problem.sizes.d_head;
        for (row, left) in corrections.chunks_exact_mut(self.wide).zip(decays.left) {
            map_in_place(Times(left), &mut row[own.clone()], []);
        }
        if chunk.kept.is_some() {
            for row in self.state.chunks_exact_mut(self.wide) {
                map_in_place(Times(decays.end()), &mut row[own.clone()], []);
            }
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

/// The results of a chunk of a head: of its positions, and of the state before it.
struct Join<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task,
    chunk: &'a Chunk,
    head: usize,
    decays: &'a Decays,
    inside: &'a [f32],
    /// Rows of `wide` numbers.
    read: &'a [f32],
    wide: usize,
    to: &'a Shared,
}

impl WithSimd for Join<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (problem, d_head) = (self.problem, self.problem.sizes.d_head);
        for (i, at) in self.chunk.positions.clone().enumerate() {
            let inside = &self.inside[i * d_head..(i + 1) * d_head];
            let read = &self.read[i * self.wide..i * self.wide + d_head];
            let since = Vector::splat(simd, self.decays.since[i]);
            let place = problem.place(self.task, at, self.head);
            // SAFETY: this head's numbers of this position are the calling task's alone.
            let y = unsafe { self.to.row(place.start, d_head) };
            for lane in (0..d_head).step_by(S::F32_LANES) {
                let sum = load(simd, read, lane).mul_add(since, load(simd, inside, lane));
                store(simd, sum, y, lane);
            }
        }
    }
}
