//! The backward pass, chunk by chunk from the last.
//!
//! Let g be the gradient of the output y, S the state before a chunk, K the gradient of the state after it, M the
//! decays between positions, and e and f the decays since the chunk's beginning and up to its end:
//!
//! ```text
//! v_s = Σ_t (c_t·b_s)·M_ts·g_t + f_s·Kᵀ b_s        dx = Δ·v + skip·g
//! W_ts = (g_t·Δ_s x_s)·M_ts                        dc_t = Σ_s W_ts b_s + e_t·S g_t
//!                                                  db_s = Σ_t W_ts c_t + f_s·K Δ_s x_s
//! dS = e_end·K + Σ_t e_t·c_t g_tᵀ                  dΔ_s = x_s·v_s + a·d(Δa)_s
//! ```
//!
//! d(Δa) at r is the sum from r to the chunk's end of all that positions from r on read minus all that they write,
//! Σ_{t≥r} (g_t·(y_t − skip·x_t) − Δ_t x_t·v_t), plus the dot product of K with the state after the chunk.

use burn_flex::FlexTensor;

use super::positions::{Positions, Sums};
use super::scratch::ChunkScratch;
use super::{Problem, Sizes, limits};
use crate::kernel::flex::buffer::{SharedBuffer, in_pieces, scratch_buffer, tensor, zeros};
use crate::kernel::flex::chunk_scan::{StateGradient, Task};
use crate::kernel::flex::chunks::{Chunk, Decays, Times, scale_into, weights_and_gradients};
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::{map_in_place, run};
use crate::kernel::flex::strips::sum_vectors;
use crate::kernel::ssd::extension::SsdInputs;

/// The inputs and outputs of the pass.
pub struct BackwardArgs<'a> {
    pub problem: &'a Problem<'a>,
    /// The states before the chunks.
    states: &'a [f32],
    /// The output, and its gradient.
    pub out: &'a [f32],
    pub grad: &'a [f32],
    pub mixed: SharedBuffer,
    /// Gradients of b and c from all blocks of heads except the first, `[blocks − 1, batch, seq, 2·groups·n]`.
    directions: SharedBuffer,
    raw: SharedBuffer,
    /// Gradient of decay, `[batch, heads]`.
    decay: SharedBuffer,
    /// Gradient of the skip, `[batch, heads]`.
    skip: SharedBuffer,
}

/// Returns the gradients of all inputs; `states` are those before the chunks.
pub fn backward(
    problem: &Problem,
    states: &[f32],
    [out, grad]: [&[f32]; 2],
) -> SsdInputs<FlexTensor> {
    let sizes @ Sizes {
        batch,
        seq,
        heads,
        groups,
        n,
        ..
    } = problem.layout.sizes;
    let (width, both) = (sizes.mixed(), 2 * groups * n);
    let mut mixed = zeros(batch * seq * width);
    let mut others = zeros((problem.layout.blocks() - 1) * batch * seq * both);
    let mut raw = zeros(batch * seq * heads);
    let [mut decay, mut skip] = [(); 2].map(|()| vec![0.0; batch * heads]);
    let work = BackwardArgs {
        problem,
        states,
        out,
        grad,
        mixed: SharedBuffer::new(&mut mixed),
        directions: SharedBuffer::new(&mut others),
        raw: SharedBuffer::new(&mut raw),
        decay: SharedBuffer::new(&mut decay),
        skip: SharedBuffer::new(&mut skip),
    };
    problem
        .layout
        .for_each_task(|task| TaskScan::new(&work, &task).row());
    if !others.is_empty() {
        in_pieces(&mut mixed, 16 * width, |first, piece| {
            let positions = piece.chunks_exact_mut(width).enumerate();
            for (i, position) in positions {
                let at = (first / width + i) * both;
                let to = &mut position[width - both..];
                for block in others.chunks_exact(batch * seq * both) {
                    let from = &block[at..at + both];
                    to.iter_mut().zip(from).for_each(|(sum, x)| *sum += x);
                }
            }
        });
    }
    SsdInputs {
        mixed: tensor(mixed, [batch, seq, width]),
        raw: tensor(raw, [batch, seq, heads]),
        decay: tensor(sum_vectors(&decay, heads), [heads]),
        skip: tensor(sum_vectors(&skip, heads), [heads]),
    }
}

/// A task during the backward scan of a row.
struct TaskScan<'a> {
    work: &'a BackwardArgs<'a>,
    task: &'a Task,
    /// Number of channels of the task's heads.
    wide: usize,
    later: StateGradient,
    decay: Vec<f64>,
    skip: Vec<f32>,
}

impl<'a> TaskScan<'a> {
    fn new(work: &'a BackwardArgs<'a>, task: &'a Task) -> Self {
        let (layout, heads) = (&work.problem.layout, task.heads.len());
        Self {
            work,
            task,
            wide: layout.width_of(task),
            later: StateGradient::new(layout, task),
            decay: vec![0.0; heads],
            skip: vec![0.0; heads],
        }
    }

    fn row(mut self) {
        let (work, task) = (self.work, self.task);
        let layout = &work.problem.layout;
        layout.scan_back(task, work.states, |chunk, [state, after]| {
            let after = after.filter(|_| self.later.is_present);
            self.chunk(chunk, [state, after]);
        });
        let first = task.row * layout.sizes.heads + task.heads.start;
        // SAFETY: only this task writes this row's sums of these heads.
        let [decay, skip] =
            [&work.decay, &work.skip].map(|to| unsafe { to.row(first, task.heads.len()) });
        skip.copy_from_slice(&self.skip);
        decay
            .iter_mut()
            .zip(&self.decay)
            .for_each(|(to, sum)| *to = *sum as f32);
    }

    /// Computes the gradients of a chunk, given the states before and after it.
    fn chunk(&mut self, chunk: &Chunk, [state, after]: [Option<&[f32]>; 2]) {
        let (problem, task, wide) = (self.work.problem, self.task, self.wide);
        let n = problem.layout.sizes.n;
        let len = chunk.positions.len();
        let [b, c] = [0, 1].map(|part| problem.directions(task, chunk, part));
        let mut rooms = ChunkScratch::new(len, wide, problem.layout.sizes.d_head);
        product(&mut rooms.scores, c, b.transposed(), WriteMode::TILE);
        rooms.of_scores.fill(0.0);
        if let Some(later) = self.later.matrix() {
            product(&mut rooms.from_later, b, later, WriteMode::TILE);
        }
        for number in 0..task.heads.len() {
            self.head(number, chunk, after, &mut rooms);
        }
        let of_scores = Matrix::rows(&rooms.of_scores, [len, len]);
        let [mut of_b, mut of_c] = [(); 2].map(|()| scratch_buffer(len * n));
        product(&mut of_c, of_scores, b, WriteMode::TILE);
        product(&mut of_b, of_scores.transposed(), c, WriteMode::TILE);
        let arriving = Matrix::rows(&rooms.arriving, [len, wide]);
        if let Some(state) = state {
            let state = Matrix::rows(state, [n, wide]).transposed();
            product(&mut of_c, arriving, state, WriteMode::ADD_TILE);
        }
        if let Some(later) = self.later.matrix() {
            let written = Matrix::rows(&rooms.written, [len, wide]);
            product(&mut of_b, written, later.transposed(), WriteMode::ADD_TILE);
        }
        self.write_directions(chunk, [&of_b, &of_c]);
        let ends = &rooms.ends;
        self.later.carry_back(state.is_some(), ends, |later| {
            product(later, c.transposed(), arriving, WriteMode::ADD_TILE);
        });
    }

    /// Computes what a chunk of one head contributes to all gradients except those of b and c.
    fn head(
        &mut self,
        number: usize,
        chunk: &Chunk,
        after: Option<&[f32]>,
        rooms: &mut ChunkScratch,
    ) {
        let (work, task, wide) = (self.work, self.task, self.wide);
        let problem = work.problem;
        let Sizes { d_head, heads, .. } = problem.layout.sizes;
        let (head, len) = (task.heads.start + number, chunk.positions.len());
        let of_head = number * d_head;
        let decays = problem.decays(task, chunk, head);
        for (i, at) in chunk.positions.clone().enumerate() {
            let x = problem.x(task, at, head);
            let place = i * wide + of_head;
            scale_into(
                decays.steps[i],
                x,
                &mut rooms.written[place..place + d_head],
            );
        }
        let grad = Matrix {
            data: &work.grad[problem
                .layout
                .place(task, chunk.positions.start, head)
                .start..],
            shape: [len, d_head],
            strides: [heads * d_head, 1],
        };
        let written = Matrix {
            data: &rooms.written[of_head..],
            shape: [len, d_head],
            strides: [wide, 1],
        };
        product(
            &mut rooms.products,
            grad,
            written.transposed(),
            WriteMode::TILE,
        );
        weights_and_gradients(
            &decays,
            &rooms.scores,
            &mut rooms.seen,
            &rooms.products,
            &mut rooms.of_scores,
        );
        let seen = Matrix::rows(&rooms.seen, [len, len]).transposed();
        product(&mut rooms.of_x, seen, grad, WriteMode::TILE);
        let sums = run(Positions {
            work,
            task,
            chunk,
            head,
            decays: &decays,
            of_x: &rooms.of_x,
            from_later: self
                .later
                .is_present
                .then_some(&rooms.from_later[of_head..]),
            wide,
        });
        self.skip[number] += sums.skip;
        let of_end = self.later.dot_with_states(after, of_head);
        self.decay[number] += self.of_steps(chunk, head, &decays, &sums, of_end);
        for (i, at) in chunk.positions.clone().enumerate() {
            let place = i * wide + of_head;
            let own = place..place + d_head;
            map_in_place(Times(decays.left[i]), &mut rooms.written[own.clone()], []);
            let grad = &work.grad[problem.layout.place(task, at, head)];
            scale_into(decays.since[i], grad, &mut rooms.arriving[own]);
        }
        rooms.ends[number] = decays.end();
    }

    /// Writes the gradients of a head's steps; returns that of its decay.
    fn of_steps(
        &self,
        chunk: &Chunk,
        head: usize,
        decays: &Decays,
        sums: &Sums,
        of_end: f64,
    ) -> f64 {
        let problem = self.work.problem;
        let decay = f64::from(problem.inputs.decay[head]);
        let [least, most] = limits(problem.settings);
        let (mut later, mut of_decay) = (of_end, 0.0);
        for (i, at) in chunk.positions.clone().enumerate().rev() {
            let step = decays.steps[i];
            later += f64::from(sums.seen[i]) - f64::from(step) * f64::from(sums.written[i]);
            of_decay += later * f64::from(step);
            let of_step = f64::from(sums.written[i]) + later * decay;
            let place = problem.layout.gate(self.task, at, head);
            let raw = f64::from(problem.inputs.raw[place]);
            let free = raw.exp().ln_1p();
            let held = free < f64::from(least) || free > f64::from(most);
            let slope = if held {
                0.0
            } else {
                1.0 / (1.0 + (-raw).exp())
            };
            // SAFETY: only this task writes this head's step at this position.
            let to = unsafe { self.work.raw.row(place, 1) };
            to[0] = (of_step * slope) as f32;
        }
        of_decay
    }

    /// Writes the gradients of b and c, `[len, n]` each.
    fn write_directions(&self, chunk: &Chunk, parts: [&[f32]; 2]) {
        let (problem, task) = (self.work.problem, self.task);
        let sizes @ Sizes {
            batch,
            seq,
            groups,
            n,
            ..
        } = problem.layout.sizes;
        for (part, from) in parts.into_iter().enumerate() {
            let within = (part * groups + task.group) * n;
            for (row, at) in from.chunks_exact(n).zip(chunk.positions.clone()) {
                let position = task.row * seq + at;
                // SAFETY: only this task writes this block's sums of this group at this position.
                let to = unsafe {
                    match task.block.checked_sub(1) {
                        None => {
                            let first = position * sizes.mixed() + sizes.channels();
                            self.work.mixed.row(first + within, n)
                        }
                        Some(block) => {
                            let first = (block * batch * seq + position) * 2 * groups * n;
                            self.work.directions.row(first + within, n)
                        }
                    }
                };
                to.copy_from_slice(row);
            }
        }
    }
}
