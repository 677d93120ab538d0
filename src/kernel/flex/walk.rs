//! Rows that are walked chunk by chunk, each with the states of some heads. What state spaces by heads and the delta rule have in
//! common: where their numbers lie, how work is cut, how states are carried, kept and walked back over.
//!
//! Work is cut by sizes alone: no number depends on the threads, nor on the other rows.

use std::ops::Range;

use burn_flex::FlexTensor;

use super::attention_rows::dot;
use super::buffer::{Shared, tensor, zeros};
use super::chunks::{Chunk, Decays, Times, chunks};
use super::product::{Matrix, Put, product};
use super::simd::map_in_place;
use super::strips::Row;
use super::threads;
use crate::kernel::recurrent::Sequences;
use crate::kernel::ssd::Sizes;

/// Numbers of states of all positions up to which one thread makes everything.
const FEW: usize = 16 * 1024;

/// How rows are cut.
pub struct Layout {
    pub sizes: Sizes,
    /// The chunks of each row.
    rows: Vec<Vec<Chunk>>,
    /// How many of them have a state before them.
    kept: usize,
    /// Heads of a task at most.
    most: usize,
}

/// A row and some heads of a group.
pub struct Task {
    pub row: usize,
    pub group: usize,
    /// Its number in the group.
    pub block: usize,
    pub heads: Range<usize>,
}

impl Layout {
    /// Of rows with these sequences, which go on from states where some are `carried`; a task has `most` heads at most.
    pub fn new(sizes: Sizes, sequences: &Sequences, carried: bool, most: usize) -> Self {
        let mut kept = 0;
        let rows = (0..sizes.batch).map(|row| {
            let row = Row::new(sequences, row, sizes.seq);
            chunks(&row, carried, &mut kept)
        });
        Self {
            rows: rows.collect(),
            kept,
            sizes,
            most,
        }
    }

    /// Tasks of a group in a row.
    pub fn blocks(&self) -> usize {
        (self.sizes.heads / self.sizes.groups).div_ceil(self.most)
    }

    /// Calls `work` for each row and its heads, on all threads when there is enough to do.
    pub fn each(&self, work: impl Fn(Task) + Sync) {
        let Sizes {
            batch,
            seq,
            heads,
            groups,
            n,
            ..
        } = self.sizes;
        let (blocks, per) = (self.blocks(), heads / groups);
        let task = |number: usize| {
            let (row, of_row) = (number / (groups * blocks), number % (groups * blocks));
            let (group, block) = (of_row / blocks, of_row % blocks);
            let (first, end) = (group * per + block * self.most, (group + 1) * per);
            Task {
                row,
                group,
                block,
                heads: first..first.saturating_add(self.most).min(end),
            }
        };
        let tasks = (0..batch * groups * blocks).map(task);
        if batch * seq * self.sizes.channels() * n <= FEW {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    /// Where a position's numbers begin in `[batch, seq, mixed]`.
    pub fn position(&self, row: usize, at: usize) -> usize {
        (row * self.sizes.seq + at) * self.sizes.mixed()
    }

    /// Where a head's number of a position lies in `[batch, seq, heads]`.
    pub fn gate(&self, task: &Task, at: usize, head: usize) -> usize {
        (task.row * self.sizes.seq + at) * self.sizes.heads + head
    }

    /// Where a head's numbers at a position lie in `[batch, seq, channels]`.
    pub fn place(&self, task: &Task, at: usize, head: usize) -> Range<usize> {
        let first = self.gate(task, at, head) * self.sizes.d_head;
        first..first + self.sizes.d_head
    }

    /// Channels of the heads of a task.
    pub fn wide(&self, task: &Task) -> usize {
        task.heads.len() * self.sizes.d_head
    }

    /// Where the states of a task lie among those that are kept.
    fn states(&self, task: &Task, kept: usize) -> Range<usize> {
        let Sizes { d_head, n, .. } = self.sizes;
        let first = (kept * self.sizes.channels() + task.heads.start * d_head) * n;
        first..first + self.wide(task) * n
    }

    /// Walks all rows from their first chunk on: `chunk` is given the states of a task, a chunk, and whether the state after it is
    /// asked for. The results, with the last states behind them where they are wanted, and if `saving` the states before the
    /// chunks that have one, which have no elements otherwise.
    pub fn forward(
        &self,
        state: Option<&[f32]>,
        [last, saving]: [bool; 2],
        chunk: impl Fn(&mut States, &Chunk, bool, &Shared) + Sync,
    ) -> (FlexTensor, FlexTensor) {
        let Sizes { batch, seq, n, .. } = self.sizes;
        let channels = self.sizes.channels();
        let rows = batch * seq + if last { batch * n } else { 0 };
        let kept = if saving { self.kept } else { 0 };
        let mut out = zeros(rows * channels);
        let mut states = zeros(kept * n * channels);
        let (to, to_states) = (Shared::new(&mut out), Shared::new(&mut states));
        self.each(|task| {
            let mut walk = States::new(self, &task, state);
            let all = &self.rows[task.row];
            for (number, of_row) in all.iter().enumerate() {
                match of_row.kept {
                    Some(kept) if saving => {
                        let place = self.states(&task, kept);
                        // SAFETY: the states of these heads before this chunk are this task's alone.
                        let to = unsafe { to_states.row(place.start, place.len()) };
                        to.copy_from_slice(&walk.numbers);
                    }
                    Some(_) => {}
                    None => walk.numbers.fill(0.0),
                }
                chunk(&mut walk, of_row, last || number + 1 < all.len(), &to);
            }
            if last {
                walk.write(batch * seq, &to);
            }
        });
        (
            tensor(out, [rows, channels]),
            tensor(states, [kept, n * channels]),
        )
    }

    /// Walks the row of a task from its last chunk on, with the states before and after each chunk, of those that were kept.
    pub fn back<'s>(
        &self,
        task: &Task,
        states: &'s [f32],
        mut chunk: impl FnMut(&Chunk, [Option<&'s [f32]>; 2]),
    ) {
        let mut after = None;
        for of_row in self.rows[task.row].iter().rev() {
            let kept = of_row.kept.map(|kept| self.states(task, kept));
            let state = kept.map(|place| &states[place]);
            chunk(of_row, [state, after]);
            after = state;
        }
    }
}

/// The states of a task on its way along a row.
pub struct States<'a> {
    layout: &'a Layout,
    pub task: &'a Task,
    /// Those of its heads side by side, `[n, wide]`.
    numbers: Vec<f32>,
    /// Channels of its heads.
    pub wide: usize,
}

impl<'a> States<'a> {
    fn new(layout: &'a Layout, task: &'a Task, state: Option<&[f32]>) -> Self {
        let Sizes { d_head, n, .. } = layout.sizes;
        let (channels, wide) = (layout.sizes.channels(), layout.wide(task));
        let mut numbers = vec![0.0; n * wide];
        if let Some(state) = state {
            let rows = state[task.row * n * channels..].chunks_exact(channels);
            let first = task.heads.start * d_head;
            for (to, row) in numbers.chunks_exact_mut(wide).zip(rows) {
                to.copy_from_slice(&row[first..first + wide]);
            }
        }
        Self {
            layout,
            task,
            numbers,
            wide,
        }
    }

    /// `[n, wide]`; `None` before a chunk whose state is zero.
    pub fn before(&self, chunk: &Chunk) -> Option<Matrix<'_>> {
        let state = Matrix::rows(&self.numbers, [self.layout.sizes.n, self.wide]);
        chunk.kept.map(|_| state)
    }

    /// Decays what a head writes, of which a row of `written` has `wide` numbers, and its state, to the end of a chunk.
    pub fn decay(&mut self, chunk: &Chunk, of_head: usize, decays: &Decays, written: &mut [f32]) {
        let own = of_head..of_head + self.layout.sizes.d_head;
        for (row, left) in written.chunks_exact_mut(self.wide).zip(decays.left) {
            map_in_place(Times(left), &mut row[own.clone()], []);
        }
        if chunk.kept.is_some() {
            for row in self.numbers.chunks_exact_mut(self.wide) {
                map_in_place(Times(decays.end()), &mut row[own.clone()], []);
            }
        }
    }

    /// Adds what positions write by their keys `[len, n]`, decayed, `[len, wide]`.
    pub fn add(&mut self, keys: Matrix, written: &[f32]) {
        let written = Matrix::rows(written, [keys.shape[0], self.wide]);
        product(&mut self.numbers, keys.transposed(), written, Put::ADD_TILE);
    }

    /// Writes the states behind `first` rows of results.
    fn write(&self, first: usize, to: &Shared) {
        let Sizes { d_head, n, .. } = self.layout.sizes;
        let channels = self.layout.sizes.channels();
        for (number, row) in self.numbers.chunks_exact(self.wide).enumerate() {
            let at = (first + self.task.row * n + number) * channels;
            // SAFETY: this row's states of these channels are this task's alone.
            let to = unsafe { to.row(at + self.task.heads.start * d_head, self.wide) };
            to.copy_from_slice(row);
        }
    }
}

/// What directions `[len, n]` find in a state, `[len, wide]`, or none.
pub fn found(to: &mut [f32], directions: Matrix, state: Option<Matrix>) {
    match state {
        Some(state) => product(to, directions, state, Put::TILE),
        None => to.fill(0.0),
    }
}

/// The gradient of the states of a task on its way back.
pub struct Later {
    /// `[n, wide]`.
    numbers: Vec<f32>,
    wide: usize,
    d_head: usize,
    /// Whether there is one.
    pub reached: bool,
}

impl Later {
    pub fn new(layout: &Layout, task: &Task) -> Self {
        let wide = layout.wide(task);
        Self {
            numbers: vec![0.0; layout.sizes.n * wide],
            wide,
            d_head: layout.sizes.d_head,
            reached: false,
        }
    }

    /// `[n, wide]`, when there is one.
    pub fn matrix(&self) -> Option<Matrix<'_>> {
        let rows = self.numbers.len() / self.wide;
        let matrix = Matrix::rows(&self.numbers, [rows, self.wide]);
        self.reached.then_some(matrix)
    }

    /// Its product with the states after a chunk, over a head's channels from `of_head` on.
    pub fn meets(&self, after: Option<&[f32]>, of_head: usize) -> f64 {
        let own = of_head..of_head + self.d_head;
        let mut sum = 0.0;
        for (later, after) in self
            .numbers
            .chunks_exact(self.wide)
            .zip(after.unwrap_or_default().chunks_exact(self.wide))
        {
            sum += f64::from(dot(&later[own.clone()], &after[own.clone()]));
        }
        sum
    }

    /// Goes before a chunk, over which each head's state decays by an end: to zero where no state is before it. `add` adds the
    /// chunk's own share.
    pub fn pass_on(&mut self, has_state: bool, ends: &[f32], add: impl FnOnce(&mut [f32])) {
        self.reached = has_state;
        if !has_state {
            return self.numbers.fill(0.0);
        }
        for row in self.numbers.chunks_exact_mut(self.wide) {
            let ends = row.chunks_exact_mut(self.d_head).zip(ends);
            ends.for_each(|(row, end)| map_in_place(Times(*end), row, []));
        }
        add(&mut self.numbers);
    }
}
