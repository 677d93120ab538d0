//! Scans of rows chunk by chunk, each with the states of some heads, shared by state spaces by heads and the delta
//! rule: the layout of their tensors, the division of work, and how states are carried, kept and traversed backward.
//!
//! Work is divided by sizes only: no result depends on the number of threads, nor on the other rows.

use std::ops::Range;

use burn_flex::FlexTensor;

use super::attention_rows::dot;
use super::buffer::{SharedBuffer, tensor, zeros};
use super::chunks::{Chunk, Decays, Times, chunks};
use super::product::{Matrix, WriteMode, product};
use super::simd::map_in_place;
use super::strips::Row;
use super::threads;
use crate::kernel::recurrent::Sequences;
use crate::kernel::ssd::Sizes;

/// Number of state elements of all positions up to which a single thread does all the work.
const SINGLE_THREAD_LEN: usize = 16 * 1024;

/// The division of rows into chunks and tasks.
pub struct ScanLayout {
    pub sizes: Sizes,
    /// Chunks of each row.
    rows: Vec<Vec<Chunk>>,
    /// Number of chunks that have a state before them.
    state_count: usize,
    /// Maximum number of heads of a task.
    max_heads: usize,
}

/// A row and some heads of a group.
pub struct Task {
    pub row: usize,
    pub group: usize,
    /// Index of the task in the group.
    pub block: usize,
    pub heads: Range<usize>,
}

impl ScanLayout {
    /// Lays out rows with these sequences; `carried` tells whether they continue from given states. A task has at
    /// most `most` heads.
    pub fn new(sizes: Sizes, sequences: &Sequences, carried: bool, most: usize) -> Self {
        let mut kept = 0;
        let rows = (0..sizes.batch).map(|row| {
            let row = Row::new(sequences, row, sizes.seq);
            chunks(&row, carried, &mut kept)
        });
        Self {
            rows: rows.collect(),
            state_count: kept,
            sizes,
            max_heads: most,
        }
    }

    /// Returns the number of tasks of a group in a row.
    pub fn blocks(&self) -> usize {
        (self.sizes.heads / self.sizes.groups).div_ceil(self.max_heads)
    }

    /// Calls `work` for each row and its heads, on all threads if there is enough to do.
    pub fn for_each_task(&self, work: impl Fn(Task) + Sync) {
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
            let (first, end) = (group * per + block * self.max_heads, (group + 1) * per);
            Task {
                row,
                group,
                block,
                heads: first..first.saturating_add(self.max_heads).min(end),
            }
        };
        let tasks = (0..batch * groups * blocks).map(task);
        if batch * seq * self.sizes.channels() * n <= SINGLE_THREAD_LEN {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    /// Returns the offset of a position in `[batch, seq, mixed]`.
    pub fn position(&self, row: usize, at: usize) -> usize {
        (row * self.sizes.seq + at) * self.sizes.mixed()
    }

    /// Returns the index of a head at a position in `[batch, seq, heads]`.
    pub fn gate(&self, task: &Task, at: usize, head: usize) -> usize {
        (task.row * self.sizes.seq + at) * self.sizes.heads + head
    }

    /// Returns the range of a head's channels at a position in `[batch, seq, channels]`.
    pub fn place(&self, task: &Task, at: usize, head: usize) -> Range<usize> {
        let first = self.gate(task, at, head) * self.sizes.d_head;
        first..first + self.sizes.d_head
    }

    /// Returns the number of channels of a task's heads.
    pub fn width_of(&self, task: &Task) -> usize {
        task.heads.len() * self.sizes.d_head
    }

    /// Returns the range of a task's states among those that are kept.
    fn states(&self, task: &Task, kept: usize) -> Range<usize> {
        let Sizes { d_head, n, .. } = self.sizes;
        let first = (kept * self.sizes.channels() + task.heads.start * d_head) * n;
        first..first + self.width_of(task) * n
    }

    /// Scans all rows from their first chunk on. `chunk` receives the states of a task, a chunk, and whether the
    /// state after it is needed. Returns the outputs, followed by the last states if `last`, and, if `saving`, the
    /// states before the chunks that have one; otherwise that tensor is empty.
    pub fn forward(
        &self,
        state: Option<&[f32]>,
        [last, saving]: [bool; 2],
        chunk: impl Fn(&mut States, &Chunk, bool, &SharedBuffer) + Sync,
    ) -> (FlexTensor, FlexTensor) {
        let Sizes { batch, seq, n, .. } = self.sizes;
        let channels = self.sizes.channels();
        let rows = batch * seq + if last { batch * n } else { 0 };
        let kept = if saving { self.state_count } else { 0 };
        let mut out = zeros(rows * channels);
        let mut states = zeros(kept * n * channels);
        let (to, to_states) = (SharedBuffer::new(&mut out), SharedBuffer::new(&mut states));
        self.for_each_task(|task| {
            let mut walk = States::new(self, &task, state);
            let all = &self.rows[task.row];
            for (number, of_row) in all.iter().enumerate() {
                match of_row.state_index {
                    Some(kept) if saving => {
                        let place = self.states(&task, kept);
                        // SAFETY: only this task writes the states of these heads before this chunk.
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

    /// Scans a task's row from its last chunk on, with the kept states before and after each chunk.
    pub fn scan_back<'s>(
        &self,
        task: &Task,
        states: &'s [f32],
        mut chunk: impl FnMut(&Chunk, [Option<&'s [f32]>; 2]),
    ) {
        let mut after = None;
        for of_row in self.rows[task.row].iter().rev() {
            let kept = of_row.state_index.map(|kept| self.states(task, kept));
            let state = kept.map(|place| &states[place]);
            chunk(of_row, [state, after]);
            after = state;
        }
    }
}

/// The states of a task during the scan of a row.
pub struct States<'a> {
    layout: &'a ScanLayout,
    pub task: &'a Task,
    /// States of the task's heads side by side, `[n, wide]`.
    numbers: Vec<f32>,
    /// Number of channels of the task's heads.
    pub wide: usize,
}

impl<'a> States<'a> {
    fn new(layout: &'a ScanLayout, task: &'a Task, state: Option<&[f32]>) -> Self {
        let Sizes { d_head, n, .. } = layout.sizes;
        let (channels, wide) = (layout.sizes.channels(), layout.width_of(task));
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

    /// Returns the state `[n, wide]` before a chunk; `None` if it is zero.
    pub fn before(&self, chunk: &Chunk) -> Option<Matrix<'_>> {
        let state = Matrix::rows(&self.numbers, [self.layout.sizes.n, self.wide]);
        chunk.state_index.map(|_| state)
    }

    /// Decays a head's state, and what it writes, to the end of a chunk; rows of `written` have `wide` elements.
    pub fn decay(&mut self, chunk: &Chunk, of_head: usize, decays: &Decays, written: &mut [f32]) {
        let own = of_head..of_head + self.layout.sizes.d_head;
        for (row, left) in written.chunks_exact_mut(self.wide).zip(decays.left) {
            map_in_place(Times(left), &mut row[own.clone()], []);
        }
        if chunk.state_index.is_some() {
            for row in self.numbers.chunks_exact_mut(self.wide) {
                map_in_place(Times(decays.end()), &mut row[own.clone()], []);
            }
        }
    }

    /// Adds the products of the keys `[len, n]` of positions with the decayed values `[len, wide]` that they write.
    pub fn add(&mut self, keys: Matrix, written: &[f32]) {
        let written = Matrix::rows(written, [keys.shape[0], self.wide]);
        product(
            &mut self.numbers,
            keys.transposed(),
            written,
            WriteMode::ADD_TILE,
        );
    }

    /// Writes the states after `first` rows of outputs.
    fn write(&self, first: usize, to: &SharedBuffer) {
        let Sizes { d_head, n, .. } = self.layout.sizes;
        let channels = self.layout.sizes.channels();
        for (number, row) in self.numbers.chunks_exact(self.wide).enumerate() {
            let at = (first + self.task.row * n + number) * channels;
            // SAFETY: only this task writes this row's states of these channels.
            let to = unsafe { to.row(at + self.task.heads.start * d_head, self.wide) };
            to.copy_from_slice(row);
        }
    }
}

/// Multiplies directions `[len, n]` with a state into `[len, wide]`; zeros if there is no state.
pub fn multiply_by_state(to: &mut [f32], directions: Matrix, state: Option<Matrix>) {
    match state {
        Some(state) => product(to, directions, state, WriteMode::TILE),
        None => to.fill(0.0),
    }
}

/// The gradient of a task's states during the backward scan.
pub struct StateGradient {
    /// Gradient of the states, `[n, wide]`.
    numbers: Vec<f32>,
    wide: usize,
    d_head: usize,
    /// Whether the gradient is present; otherwise it is zero.
    pub is_present: bool,
}

impl StateGradient {
    pub fn new(layout: &ScanLayout, task: &Task) -> Self {
        let wide = layout.width_of(task);
        Self {
            numbers: vec![0.0; layout.sizes.n * wide],
            wide,
            d_head: layout.sizes.d_head,
            is_present: false,
        }
    }

    /// Returns the gradient `[n, wide]`, if there is one.
    pub fn matrix(&self) -> Option<Matrix<'_>> {
        let rows = self.numbers.len() / self.wide;
        let matrix = Matrix::rows(&self.numbers, [rows, self.wide]);
        self.is_present.then_some(matrix)
    }

    /// Returns its dot product with the states after a chunk, over a head's channels from `of_head` on.
    pub fn dot_with_states(&self, after: Option<&[f32]>, of_head: usize) -> f64 {
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

    /// Carries the gradient to before a chunk: each head's decays by its element of `ends`, and `add` adds the
    /// chunk's own contribution. Without a state before the chunk it becomes zero.
    pub fn carry_back(&mut self, has_state: bool, ends: &[f32], add: impl FnOnce(&mut [f32])) {
        self.is_present = has_state;
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
