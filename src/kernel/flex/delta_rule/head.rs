//! The backward pass through a chunk of one head, except for the gradients of queries and keys, which heads share.

use super::backward::{ChunkInputs, TaskScan};
use super::positions::Positions;
use super::scratch::ChunkScratch;
use super::solve::{Changes, Corrections};
use super::units::Mix;
use crate::kernel::flex::chunks::{
    Chunk, Decays, Times, scale_into, weights, weights_and_gradients,
};
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::{map_in_place, run};
use crate::kernel::ssd::CHUNK;

impl TaskScan<'_> {
    /// Computes what a chunk of one head contributes to all gradients except those of queries and keys.
    pub fn head(
        &mut self,
        [number, head]: [usize; 2],
        given: &ChunkInputs,
        rooms: &mut ChunkScratch,
    ) {
        let (work, task, chunk, wide) = (self.work, self.task, given.chunk, self.wide);
        let (problem, d_head) = (work.problem, work.problem.layout.sizes.d_head);
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
        let less = WriteMode::TILE.times(-1.0);
        product(&mut rooms.products, changes, corrections.transposed(), less);
        // A position does not correct what it writes itself.
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

    /// Computes the gradients of a head's corrections from the outputs and the states after the chunk, and the
    /// gradients of q·k.
    fn of_results(
        &self,
        [of_head, head]: [usize; 2],
        chunk: &Chunk,
        decays: &Decays,
        rooms: &mut ChunkScratch,
    ) {
        let (problem, wide) = (self.work.problem, self.wide);
        let (len, d_head) = (chunk.positions.len(), problem.layout.sizes.d_head);
        let first = problem
            .layout
            .place(self.task, chunk.positions.start, head)
            .start;
        let channels = problem.layout.sizes.channels();
        let grad = columns(&self.work.grad[first..], [len, d_head, channels]);
        let corrections = columns(&rooms.corrections[of_head..], [len, d_head, wide]);
        product(
            &mut rooms.products,
            grad,
            corrections.transposed(),
            WriteMode::TILE,
        );
        weights_and_gradients(
            decays,
            &rooms.of_queries,
            &mut rooms.weighed,
            &rooms.products,
            &mut rooms.to_queries,
        );
        let weighed = Matrix::rows(&rooms.weighed, [len, len]).transposed();
        product(&mut rooms.of_corrections, weighed, grad, WriteMode::TILE);
        if self.later.is_present {
            let rows = rooms.of_corrections.chunks_exact_mut(d_head);
            let later = rooms.from_later.chunks_exact(wide).zip(decays.left);
            for (row, (later, left)) in rows.zip(later) {
                let mix = Mix([1.0, left]);
                map_in_place(mix, row, [&later[of_head..of_head + d_head]]);
            }
        }
    }

    /// Writes the gradients of a head's β, and those of its decays, given the sums of each position.
    fn write_gates(
        &self,
        [of_head, head]: [usize; 2],
        given: &ChunkInputs,
        [of_steps, sums]: [&[f32; CHUNK]; 2],
    ) {
        let problem = self.work.problem;
        let mut later = self.later.dot_with_states(given.after, of_head);
        for (i, at) in given.chunk.positions.clone().enumerate().rev() {
            later += f64::from(sums[i]);
            let place = problem.layout.gate(self.task, at, head);
            // SAFETY: only this task writes this head's gates of this position.
            let [beta, decay] =
                [&self.work.beta, &self.work.decay].map(|to| unsafe { to.row(place, 1) });
            beta[0] = of_steps[i];
            decay[0] = later as f32;
        }
    }

    /// Decays a head's corrections to the chunk's end, and its changes and output gradients from the chunk's
    /// beginning.
    fn decay(
        &self,
        [of_head, head]: [usize; 2],
        chunk: &Chunk,
        decays: &Decays,
        rooms: &mut ChunkScratch,
    ) {
        let d_head = self.work.problem.layout.sizes.d_head;
        for (i, at) in chunk.positions.clone().enumerate() {
            let place = i * self.wide + of_head;
            let own = place..place + d_head;
            let [left, since] = [decays.left[i], decays.since[i]];
            map_in_place(Times(left), &mut rooms.corrections[own.clone()], []);
            map_in_place(Times(since), &mut rooms.changes[own.clone()], []);
            let grad = &self.work.grad[self.work.problem.layout.place(self.task, at, head)];
            scale_into(since, grad, &mut rooms.arriving[own]);
        }
        rooms.ends.push(decays.end());
    }
}

/// Returns the first `width` columns of rows of `wide` elements.
fn columns(data: &[f32], [len, width, wide]: [usize; 3]) -> Matrix<'_> {
    Matrix {
        data,
        shape: [len, width],
        strides: [wide, 1],
    }
}
