//! The backward pass, chunk by chunk from the last.
//!
//! Let g be the gradient of the output o, S the state before a chunk as a matrix from keys to values, D the gradient
//! of the state after it, M the decays between positions, e and f the decays since the chunk's beginning and up to
//! its end, u the corrections, and w = u/β:
//!
//! ```text
//! z_s = Σ_{t≥s} (q_t·k_s)·M_ts·g_t + f_s·Dᵀ k_s − Σ_{t>s} (k_t·k_s)·M_ts·y_t,   y = β·z
//! Q_ts = (g_t·u_s)·M_ts for s ≤ t                  dq_t = Σ_s Q_ts k_s + e_t·S g_t
//! K_ts = −(y_t·u_s)·M_ts for s < t                 dk_t = Σ_s (K_ts + K_st) k_s + Σ_s Q_st q_s − e_t·S y_t + f_t·D u_t
//! dv = y,  dβ = z·w                                dS = e_end·D + Σ_t e_t·(q_t g_tᵀ − k_t y_tᵀ)
//! ```
//!
//! d(ln α) at r is the sum from r to the chunk's end, Σ_{t≥r} (g_t·o_t − y_t·v_t), plus the dot product of D with the
//! state after the chunk: what a position reads of earlier ones minus what it gives to later ones, in which the terms
//! of corrections cancel.

use burn_flex::FlexTensor;

use super::scratch::ChunkScratch;
use super::units::Units;
use super::{Problem, Sizes};
use crate::kernel::delta_rule::extension::DeltaRuleInputs;
use crate::kernel::flex::buffer::{SharedBuffer, scratch_buffer, tensor, zeros};
use crate::kernel::flex::chunk_scan::{StateGradient, Task, multiply_by_state};
use crate::kernel::flex::chunks::Chunk;
use crate::kernel::flex::product::{Matrix, WriteMode, product};

/// The inputs and outputs of the pass.
pub struct BackwardArgs<'a> {
    pub problem: &'a Problem<'a>,
    /// The states before the chunks.
    states: &'a [f32],
    /// The output, and its gradient.
    pub out: &'a [f32],
    pub grad: &'a [f32],
    pub mixed: SharedBuffer,
    pub beta: SharedBuffer,
    pub decay: SharedBuffer,
}

/// Returns the gradients of all inputs; `states` are those before the chunks.
pub fn backward(
    problem: &Problem,
    states: &[f32],
    [out, grad]: [&[f32]; 2],
) -> DeltaRuleInputs<FlexTensor> {
    let sizes @ Sizes {
        batch, seq, heads, ..
    } = problem.layout.sizes;
    let mut mixed = zeros(batch * seq * sizes.mixed());
    let [mut beta, mut decay] = [(); 2].map(|()| zeros(batch * seq * heads));
    let work = BackwardArgs {
        problem,
        states,
        out,
        grad,
        mixed: SharedBuffer::new(&mut mixed),
        beta: SharedBuffer::new(&mut beta),
        decay: SharedBuffer::new(&mut decay),
    };
    problem
        .layout
        .for_each_task(|task| TaskScan::new(&work, &task).row());
    DeltaRuleInputs {
        mixed: tensor(mixed, [batch, seq, sizes.mixed()]),
        beta: tensor(beta, [batch, seq, heads]),
        decay: tensor(decay, [batch, seq, heads]),
    }
}

/// A task during the backward scan of a row.
pub struct TaskScan<'a> {
    pub work: &'a BackwardArgs<'a>,
    pub task: &'a Task,
    /// Number of channels of the task's heads.
    pub wide: usize,
    pub later: StateGradient,
}

/// The inputs of a chunk that do not depend on its heads' own results.
pub struct ChunkInputs<'a> {
    pub chunk: &'a Chunk,
    /// The states before and after the chunk.
    state: Option<&'a [f32]>,
    pub after: Option<&'a [f32]>,
    /// Products of the chunk's keys with the state before it, `[len, wide]`.
    pub known: &'a [f32],
}

impl<'a> TaskScan<'a> {
    fn new(work: &'a BackwardArgs<'a>, task: &'a Task) -> Self {
        let layout = &work.problem.layout;
        Self {
            work,
            task,
            wide: layout.width_of(task),
            later: StateGradient::new(layout, task),
        }
    }

    fn row(mut self) {
        let (work, task) = (self.work, self.task);
        let layout = &work.problem.layout;
        layout.scan_back(task, work.states, |chunk, [state, after]| {
            let after = after.filter(|_| self.later.is_present);
            self.chunk(chunk, [state, after]);
        });
    }

    /// Computes the gradients of a chunk, given the states before and after it.
    fn chunk(&mut self, chunk: &Chunk, [state, after]: [Option<&[f32]>; 2]) {
        let (problem, task, wide) = (self.work.problem, self.task, self.wide);
        let Sizes { d_head, n, .. } = problem.layout.sizes;
        let units = [0, 1].map(|part| Units::new(problem, task, chunk, part));
        let [q, k] = units.each_ref().map(Units::matrix);
        let mut rooms = ChunkScratch::new(chunk.positions.len(), wide, d_head);
        product(&mut rooms.of_keys, k, k.transposed(), WriteMode::TILE);
        product(&mut rooms.of_queries, q, k.transposed(), WriteMode::TILE);
        rooms.to_keys.fill(0.0);
        rooms.to_queries.fill(0.0);
        if let Some(later) = self.later.matrix() {
            product(&mut rooms.from_later, k, later, WriteMode::TILE);
        }
        let before = state.map(|state| Matrix::rows(state, [n, wide]));
        let mut known = scratch_buffer(k.shape[0] * wide);
        multiply_by_state(&mut known, k, before);
        let given = ChunkInputs {
            chunk,
            state,
            after,
            known: &known,
        };
        for (number, head) in task.heads.clone().enumerate() {
            self.head([number, head], &given, &mut rooms);
        }
        self.directions(&given, &units, &rooms);
        self.pass_on(&given, [q, k], &rooms);
    }

    /// Writes the gradients of queries and keys.
    fn directions(&self, given: &ChunkInputs, units: &[Units; 2], rooms: &ChunkScratch) {
        let n = self.work.problem.layout.sizes.n;
        let len = given.chunk.positions.len();
        let [q, k] = units.each_ref().map(Units::matrix);
        let [to_queries, to_keys] =
            [&rooms.to_queries, &rooms.to_keys].map(|to| Matrix::rows(to, [len, len]));
        let [mut of_q, mut of_k] = [(); 2].map(|()| scratch_buffer(len * n));
        product(&mut of_q, to_queries, k, WriteMode::TILE);
        product(&mut of_k, to_queries.transposed(), q, WriteMode::TILE);
        product(&mut of_k, to_keys, k, WriteMode::ADD_TILE);
        product(&mut of_k, to_keys.transposed(), k, WriteMode::ADD_TILE);
        let of_all = |all| Matrix::rows(all, [len, self.wide]);
        if let Some(state) = given.state {
            let state = Matrix::rows(state, [n, self.wide]).transposed();
            product(
                &mut of_q,
                of_all(&rooms.arriving),
                state,
                WriteMode::ADD_TILE,
            );
            let less = WriteMode::ADD_TILE.times(-1.0);
            product(&mut of_k, of_all(&rooms.changes), state, less);
        }
        if let Some(later) = self.later.matrix() {
            let later = later.transposed();
            product(
                &mut of_k,
                of_all(&rooms.corrections),
                later,
                WriteMode::ADD_TILE,
            );
        }
        for (part, mut of_units) in [of_q, of_k].into_iter().enumerate() {
            units[part].gradients(&mut of_units);
            let positions = given.chunk.positions.clone();
            for (row, at) in of_units.chunks_exact(n).zip(positions) {
                let place = self.work.problem.direction(self.task, at, part);
                // SAFETY: only this task writes this key head's elements of this position.
                let to = unsafe { self.work.mixed.row(place.start, n) };
                to.copy_from_slice(row);
            }
        }
    }

    /// Carries the gradient of the states after a chunk to that of the states before it.
    fn pass_on(&mut self, given: &ChunkInputs, [q, k]: [Matrix; 2], rooms: &ChunkScratch) {
        let of_all = |all| Matrix::rows(all, [q.shape[0], self.wide]);
        let [arriving, changes] = [&rooms.arriving, &rooms.changes].map(|all| of_all(all));
        let has_state = given.state.is_some();
        self.later.carry_back(has_state, &rooms.ends, |later| {
            product(later, q.transposed(), arriving, WriteMode::ADD_TILE);
            let less = WriteMode::ADD_TILE.times(-1.0);
            product(later, k.transposed(), changes, less);
        });
    }
}
