//! The forward pass.

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::{BESIDE, CHUNK, Position, Problem, Task, advance, multiply_by_state};
use crate::kernel::extension::Maybe;
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, scratch_buffer, slice, tensor, zeros};
use crate::kernel::flex::simd::run;
use crate::kernel::flex::strips::{Row, store};

/// Returns the output, followed by the last states if they are requested, and, if `saving`, the states before each
/// chunk; otherwise that tensor is empty.
pub fn forward(problem: &Problem, state: Maybe<Flex>, saving: bool) -> (FlexTensor, FlexTensor) {
    let Problem {
        batch,
        seq,
        channels,
        heads,
        n,
        wide,
        settings,
        ..
    } = *problem;
    let state = state.into_option().map(contiguous);
    let state = state.as_ref().map(slice);
    let rows = batch * seq + if settings.last { batch * n } else { 0 };
    let chunks = if saving { problem.chunks() } else { 0 };
    let mut out = zeros(rows * channels);
    let mut states = zeros(batch * heads * chunks * problem.numbers());
    let (to, kept) = (SharedBuffer::new(&mut out), SharedBuffer::new(&mut states));
    problem.for_each_task(|task| {
        let mut numbers = scratch_buffer(problem.numbers());
        numbers.fill(0.0);
        if let Some(state) = state {
            let of_head = &state[task.row * n * channels + problem.carried(task)..][..n * n];
            let rows = numbers.chunks_exact_mut(wide).zip(of_head.chunks_exact(n));
            rows.for_each(|(to, from)| to[..n].copy_from_slice(from));
        }
        let mut w = scratch_buffer(wide);
        let row = problem.row(task);
        for (chunk, times) in row.chunks(CHUNK).enumerate() {
            if saving {
                let place = problem.kept(task, chunk);
                // SAFETY: only this task writes the states of this head of this row.
                let to = unsafe { kept.row(place.start, place.len()) };
                to.copy_from_slice(&numbers);
            }
            run(Steps {
                problem,
                row: &row,
                task,
                times,
                state: &mut numbers,
                w: &mut w,
                to: &to,
            });
        }
        if settings.last {
            let first = (batch * seq + task.row * n) * channels + problem.carried(task);
            // SAFETY: as above.
            let to = unsafe { to.row(first, n * n) };
            let rows = to.chunks_exact_mut(n).zip(numbers.chunks_exact(wide));
            rows.for_each(|(to, from)| to.copy_from_slice(&from[..n]));
        }
    });
    (
        tensor(out, [rows, channels]),
        tensor(states, [batch, heads, chunks, n, wide]),
    )
}

/// Some positions of a head.
struct Steps<'a> {
    problem: &'a Problem<'a>,
    row: &'a Row<'a>,
    task: Task,
    times: Range<usize>,
    /// The head's state, `[n, wide]`.
    state: &'a mut [f32],
    /// Scratch memory for the decays of a position.
    w: &'a mut [f32],
    to: &'a SharedBuffer,
}

impl WithSimd for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            problem,
            row,
            task,
            times,
            state,
            w,
            to,
        } = self;
        let registers = problem.n.div_ceil(S::F32_LANES);
        for at in times {
            if row.begins(at) {
                state.fill(0.0);
            }
            let position = problem.position(simd, task, at, w);
            let place = problem.place(task, at);
            // SAFETY: only this task writes this head's elements of this position.
            let y = unsafe { to.row(place.start, place.len()) };
            beside!(registers, |first, R| columns::<S, R>(
                simd, state, position, first, y
            ));
        }
    }
}

/// Computes a position in `R` registers of a value from register `first` on.
#[inline(always)]
fn columns<S: Simd, const R: usize>(
    simd: S,
    state: &mut [f32],
    position: Position,
    first: usize,
    y: &mut [f32],
) {
    let found = multiply_by_state::<S, R>(simd, state, position.a, first);
    let read = advance::<S, R>(simd, state, position, first, found);
    for (i, read) in read.into_iter().enumerate() {
        store(simd, read, y, (first + i) * S::F32_LANES);
    }
}
