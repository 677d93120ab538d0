//! The way back, chunk by chunk from the last.
//!
//! With g what arrives at o, S the state before a chunk as a matrix from keys to values, D the gradient of the one after it, M the
//! decays between positions, e and f those since the chunk's beginning and up to its end, u the corrections and w = u/β:
//!
//! ```text
//! z_s = Σ_{t≥s} (q_t·k_s)·M_ts·g_t + f_s·Dᵀ k_s − Σ_{t>s} (k_t·k_s)·M_ts·y_t,   y = β·z
//! Q_ts = (g_t·u_s)·M_ts for s ≤ t                  dq_t = Σ_s Q_ts k_s + e_t·S g_t
//! K_ts = −(y_t·u_s)·M_ts for s < t                 dk_t = Σ_s (K_ts + K_st) k_s + Σ_s Q_st q_s − e_t·S y_t + f_t·D u_t
//! dv = y,  dβ = z·w                                dS = e_end·D + Σ_t e_t·(q_t g_tᵀ − k_t y_tᵀ)
//! ```
//!
//! d(ln α) at r are sums from r to the chunk's end, Σ_{t≥r} (g_t·o_t − y_t·v_t), and the product of D with the state after the chunk:
//! what a position sees of earlier ones less what it gives to later ones, in which the terms of corrections cancel.

use burn_flex::FlexTensor;

use super::forward::found;
use super::positions::Positions;
use super::rooms::Rooms;
use super::solve::{Changes, Corrections};
use super::units::Units;
use super::{Problem, Sizes, Task};
use crate::kernel::delta_rule::extension::DeltaRuleInputs;
use crate::kernel::flex::attention_rows::dot;
use crate::kernel::flex::buffer::{Shared, room, tensor, zeros};
use crate::kernel::flex::chunks::{Chunk, Decays, Times, scaled, weights, weights_and_gradients};
use crate::kernel::flex::product::{Matrix, Put, product};
use crate::kernel::flex::simd::{map_in_place, run};
use crate::kernel::ssd::CHUNK;

/// Everything that the pass reads and writes.
pub struct Work<'a> {
    pub problem: &'a Problem<'a>,
    /// The states before chunks.
    states: &'a [f32],
    /// The result, and what arrives at it.
    pub out: &'a [f32],
    pub grad: &'a [f32],
    pub mixed: Shared,
    beta: Shared,
    decay: Shared,
}

/// The gradients of all inputs; `states` are those before chunks.
pub fn backward(
    problem: &Problem,
    states: &[f32],
    [out, grad]: [&[f32]; 2],
) -> DeltaRuleInputs<FlexTensor> {
    let sizes @ Sizes {
        batch, seq, heads, ..
    } = problem.sizes;
    let mut mixed = zeros(batch * seq * sizes.mixed());
    let [mut beta, mut decay] = [(); 2].map(|()| zeros(batch * seq * heads));
    let work = Work {
        problem,
        states,
        out,
        grad,
        mixed: Shared::new(&mut mixed),
        beta: Shared::new(&mut beta),
        decay: Shared::new(&mut decay),
    };
    problem.each(|task| Walk::new(&work, &task).row());
    DeltaRuleInputs {
        mixed: tensor(mixed, [batch, seq, sizes.mixed()]),
        beta: tensor(beta, [batch, seq, heads]),
        decay: tensor(decay, [batch, seq, heads]),
    }
}

/// A task on its way back along a row.
struct Walk<'a> {
    work: &'a Work<'a>,
    task: &'a Task,
    /// Channels of its heads.
    wide: usize,
    /// The gradient of the states, `[n, wide]`, and whether there is one.
    later: Vec<f32>,
    reached: bool,
}

/// What a chunk reads beside what its heads make.
struct Given<'a> {
    chunk: &'a Chunk,
    /// The states before and after it.
    state: Option<&'a [f32]>,
    after: Option<&'a [f32]>,
    /// What its keys find in the state before it, `[len, wide]`.
    known: &'a [f32],
}

impl<'a> Walk<'a> {
    fn new(work: &'a Work<'a>, task: &'a Task) -> Self {
        let wide = work.problem.wide(task);
        Self {
            work,
            task,
            wide,
            later: vec![0.0; work.problem.sizes.n * wide],
            reached: false,
        }
    }

    fn row(mut self) {
        let (work, task) = (self.work, self.task);
        let mut after: Option<&[f32]> = None;
        for chunk in work.problem.rows[task.row].iter().rev() {
            let kept = chunk.kept.map(|kept| work.problem.states(task, kept));
            let state = kept.map(|place| &work.states[place]);
            self.chunk(chunk, [state, after.filter(|_| self.reached)]);
            after = state;
        }
    }

    /// The gradients of a chunk, with the states before and after it.
    fn chunk(&mut self, chunk: &Chunk, [state, after]: [Option<&[f32]>; 2]) {
        let (problem, task, wide) = (self.work.problem, self.task, self.wide);
        let Sizes { d_head, n, .. } = problem.sizes;
        let units = [0, 1].map(|part| Units::new(problem, task, chunk, part));
        let [q, k] = units.each_ref().map(Units::matrix);
        let mut rooms = Rooms::new(chunk.positions.len(), wide, d_head);
        product(&mut rooms.of_keys, k, k.transposed(), Put::TILE);
        product(&mut rooms.of_queries, q, k.transposed(), Put::TILE);
        rooms.to_keys.fill(0.0);
        rooms.to_queries.fill(0.0);
        if self.reached {
            let later = Matrix::rows(&self.later, [n, wide]);
            product(&mut rooms.from_later, k, later, Put::TILE);
        }
        let before = state.map(|state| Matrix::rows(state, [n, wide]));
        let known = found(k, before, wide);
        let given = Given {
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

    /// The gradients of queries and keys.
    fn directions(&self, given: &Given, units: &[Units; 2], rooms: &Rooms) {
        let n = self.work.problem.sizes.n;
        let len = given.chunk.positions.len();
        let [q, k] = units.each_ref().map(Units::matrix);
        let [to_queries, to_keys] =
            [&rooms.to_queries, &rooms.to_keys].map(|to| Matrix::rows(to, [len, len]));
        let [mut of_q, mut of_k] = [(); 2].map(|()| room(len * n));
        product(&mut of_q, to_queries, k, Put::TILE);
        product(&mut of_k, to_queries.transposed(), q, Put::TILE);
        product(&mut of_k, to_keys, k, Put::ADD_TILE);
        product(&mut of_k, to_keys.transposed(), k, Put::ADD_TILE);
        let of_all = |all| Matrix::rows(all, [len, self.wide]);
        if let Some(state) = given.state {
            let state = Matrix::rows(state, [n, self.wide]).transposed();
            product(&mut of_q, of_all(&rooms.arriving), state, Put::ADD_TILE);
            let less = Put::ADD_TILE.times(-1.0);
            product(&mut of_k, of_all(&rooms.changes), state, less);
        }
        if self.reached {
            let later = Matrix::rows(&self.later, [n, self.wide]).transposed();
            product(&mut of_k, of_all(&rooms.corrections), later, Put::ADD_TILE);
        }
        for (part, mut of_units) in [of_q, of_k].into_iter().enumerate() {
            units[part].gradients(&mut of_units);
            let positions = given.chunk.positions.clone();
            for (row, at) in of_units.chunks_exact(n).zip(positions) {
                let place = self.work.problem.direction(self.task, at, part);
                // SAFETY: this key head's numbers of this position are this task's alone.
                let to = unsafe { self.work.mixed.row(place.start, n) };
                to.copy_from_slice(row);
            }
        }
    }

    /// The gradient of the states before a chunk from that of those after it.
    fn pass_on(&mut self, given: &Given, [q, k]: [Matrix; 2], rooms: &Rooms) {
        let (d_head, len) = (self.work.problem.sizes.d_head, q.shape[0]);
        self.reached = given.state.is_some();
        if !self.reached {
            return self.later.fill(0.0);
        }
        for row in self.later.chunks_exact_mut(self.wide) {
            let ends = row.chunks_exact_mut(d_head).zip(&rooms.ends);
            ends.for_each(|(row, end)| map_in_place(Times(*end), row, []));
        }
        let [arriving, changes] =
            [&rooms.arriving, &rooms.changes].map(|all| Matrix::rows(all, [len, self.wide]));
        product(&mut self.later, q.transposed(), arriving, Put::ADD_TILE);
        let less = Put::ADD_TILE.times(-1.0);
        product(&mut self.later, k.transposed(), changes, less);
    }

    /// What a chunk of one head gives to everything but queries and keys.
    fn head(&mut self, [number, head]: [usize; 2], given: &Given, rooms: &mut Rooms) {
        let (work, task, chunk, wide) = (self.work, self.task, given.chunk, self.wide);
        let (problem, d_head) = (work.problem, work.problem.sizes.d_head);
        let (of_head, len) = (number * d_head, chunk.positions.len());
        let decays = problem.decays(task, chunk, head);
        weights(&decays, &rooms.of_keys, &mut rooms.weighed);
        run(Corrections {
            problem,
            task,
            chunk,
            head,
            decays: &decays,
            of_keys: &rooms.weighed,
            known: &given.known[of_head..],
            wide,
            corrections: &mut rooms.corrections[of_head..],
            errors: Some(&mut rooms.errors),
        });
        self.of_results([of_head, head], chunk, &decays, rooms);
        weights(&decays, &rooms.of_keys, &mut rooms.weighed);
        let mut of_steps = [0.0; CHUNK];
        run(Changes {
            decays: &decays,
            of_keys: &rooms.weighed,
            of_corrections: &rooms.of_corrections,
            errors: &rooms.errors,
            len,
            d_head,
            wide,
            changes: &mut rooms.changes[of_head..],
            of_steps: &mut of_steps,
        });
        let [corrections, changes] = [&rooms.corrections, &rooms.changes]
            .map(|all| columns(&all[of_head..], [len, d_head, wide]));
        let less = Put::TILE.times(-1.0);
        product(&mut rooms.products, changes, corrections.transposed(), less);
        // No position corrects what it writes itself.
        rooms
            .products
            .iter_mut()
            .step_by(len + 1)
            .for_each(|own| *own = 0.0);
        weights_and_gradients(
            &decays,
            &rooms.of_keys,
            &mut rooms.weighed,
            &rooms.products,
            &mut rooms.to_keys,
        );
        let sums = run(Positions {
            work,
            task,
            chunk,
            head,
            changes: &rooms.changes[of_head..],
            wide,
        });
        self.write_gates([of_head, head], given, [&of_steps, &sums]);
        self.decay([of_head, head], chunk, &decays, rooms);
    }

    /// What arrives at a head's corrections from results and from the states after the chunk, and the gradients of q·k.
    fn of_results(
        &self,
        [of_head, head]: [usize; 2],
        chunk: &Chunk,
        decays: &Decays,
        rooms: &mut Rooms,
    ) {
        let (problem, wide) = (self.work.problem, self.wide);
        let (len, d_head) = (chunk.positions.len(), problem.sizes.d_head);
        let first = problem.place(self.task, chunk.positions.start, head).start;
        let channels = problem.sizes.channels();
        let grad = columns(&self.work.grad[first..], [len, d_head, channels]);
        let corrections = columns(&rooms.corrections[of_head..], [len, d_head, wide]);
        product(
            &mut rooms.products,
            grad,
            corrections.transposed(),
            Put::TILE,
        );
        weights_and_gradients(
            decays,
            &rooms.of_queries,
            &mut rooms.weighed,
            &rooms.products,
            &mut rooms.to_queries,
        );
        let weighed = Matrix::rows(&rooms.weighed, [len, len]).transposed();
        product(&mut rooms.of_corrections, weighed, grad, Put::TILE);
        if self.reached {
            let rows = rooms.of_corrections.chunks_exact_mut(d_head);
            let later = rooms.from_later.chunks_exact(wide).zip(decays.left);
            for (row, (later, left)) in rows.zip(later) {
                let numbers = row.iter_mut().zip(&later[of_head..of_head + d_head]);
                numbers.for_each(|(sum, x)| *sum += left * x);
            }
        }
    }

    /// Writes the gradients of a head's β, and of its decays from the sums of each position.
    fn write_gates(
        &self,
        [of_head, head]: [usize; 2],
        given: &Given,
        [of_steps, sums]: [&[f32; CHUNK]; 2],
    ) {
        let (problem, wide) = (self.work.problem, self.wide);
        let mut later = 0.0;
        if let Some(after) = given.after {
            let own = of_head..of_head + problem.sizes.d_head;
            let rows = self.later.chunks_exact(wide).zip(after.chunks_exact(wide));
            for (later_row, after) in rows {
                later += f64::from(dot(&later_row[own.clone()], &after[own.clone()]));
            }
        }
        for (i, at) in given.chunk.positions.clone().enumerate().rev() {
            later += f64::from(sums[i]);
            let place = problem.gate(self.task, at, head);
            // SAFETY: this head's gates of this position are this task's alone.
            let [beta, decay] =
                [&self.work.beta, &self.work.decay].map(|to| unsafe { to.row(place, 1) });
            beta[0] = of_steps[i];
            decay[0] = later as f32;
        }
    }

    /// Decays a head's corrections to the chunk's end, and its changes and what arrives from the chunk's beginning.
    fn decay(
        &self,
        [of_head, head]: [usize; 2],
        chunk: &Chunk,
        decays: &Decays,
        rooms: &mut Rooms,
    ) {
        let d_head = self.work.problem.sizes.d_head;
        for (i, at) in chunk.positions.clone().enumerate() {
            let place = i * self.wide + of_head;
            let own = place..place + d_head;
            let [left, since] = [decays.left[i], decays.since[i]];
            map_in_place(Times(left), &mut rooms.corrections[own.clone()], []);
            map_in_place(Times(since), &mut rooms.changes[own.clone()], []);
            let grad = &self.work.grad[self.work.problem.place(self.task, at, head)];
            scaled(since, grad, &mut rooms.arriving[own]);
        }
        rooms.ends.push(decays.end());
    }
}

/// The first `width` columns of rows of `wide` numbers.
fn columns(data: &[f32], [len, width, wide]: [usize; 3]) -> Matrix<'_> {
    Matrix {
        data,
        shape: [len, width],
        strides: [wide, 1],
    }
}
