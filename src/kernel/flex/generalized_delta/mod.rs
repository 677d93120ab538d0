//! The generalised delta rule on the CPU. A task is a head of a row, which walks its positions with the head's state in a core's cache: the
//! numbers of a key one below the other, those of a value side by side in registers, so that each column of a register is a recurrence by
//! itself. Work is cut by sizes alone: no number depends on the threads, nor on the other rows.

/// Computes something for all registers of a value, from each `first` on for so many (`R`, a constant): [`BESIDE`] of them while there are
/// as many, then one by one.
macro_rules! beside {
    ($registers:expr, |$first:ident, $count:ident| $compute:expr) => {{
        let mut $first = 0;
        while $first + BESIDE <= $registers {
            const $count: usize = BESIDE;
            $compute;
            $first += $count;
        }
        while $first < $registers {
            const $count: usize = 1;
            $compute;
            $first += $count;
        }
    }};
}

mod backward;
mod forward;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::Simd;

use super::buffer::{contiguous, dims, slice};
use super::math::exp_below;
use super::simd::Vector;
use super::strips::{Row, load, registers, registers_mut, store};
use super::threads;
use crate::kernel::extension::Maybe;
use crate::kernel::generalized_delta::CHUNK;
use crate::kernel::generalized_delta::extension::{
    GeneralizedDeltaBackwardOps, GeneralizedDeltaInputs, GeneralizedDeltaOps,
    GeneralizedDeltaSaved, GeneralizedDeltaSettings,
};
use crate::kernel::profile::timed;

/// Lanes of the widest registers: the numbers of a value are filled up with zeros to a multiple of it.
const LANES: usize = 16;

/// Registers of a value that run side by side.
const BESIDE: usize = 4;

/// Numbers of states of all positions up to which one thread makes everything.
const FEW: usize = 16 * 1024;

impl GeneralizedDeltaOps for Flex {
    fn generalized_delta(
        r: FlexTensor,
        decay: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        a: FlexTensor,
        b: FlexTensor,
        state: Maybe<Self>,
        settings: GeneralizedDeltaSettings,
    ) -> FlexTensor {
        let inputs = GeneralizedDeltaInputs {
            r,
            decay,
            k,
            v,
            a,
            b,
        };
        timed("generalised delta rule", || {
            let inputs = plain(inputs);
            forward::forward(&Problem::new(&inputs, &settings), state, false).0
        })
    }
}

impl GeneralizedDeltaBackwardOps for Flex {
    fn generalized_delta_saving(
        inputs: GeneralizedDeltaInputs<FlexTensor>,
        state: Maybe<Self>,
        settings: &GeneralizedDeltaSettings,
    ) -> (FlexTensor, GeneralizedDeltaSaved<Self>) {
        timed("generalised delta rule", || {
            let inputs = plain(inputs);
            let (out, states) = forward::forward(&Problem::new(&inputs, settings), state, true);
            (out, GeneralizedDeltaSaved { inputs, states })
        })
    }

    fn generalized_delta_backward(
        saved: GeneralizedDeltaSaved<Self>,
        grad: FlexTensor,
        settings: &GeneralizedDeltaSettings,
    ) -> GeneralizedDeltaInputs<FlexTensor> {
        timed("generalised delta rule, backward", || {
            let problem = Problem::new(&saved.inputs, settings);
            backward::backward(&problem, &saved.states, grad)
        })
    }
}

/// The inputs with their elements in order.
fn plain(inputs: GeneralizedDeltaInputs<FlexTensor>) -> GeneralizedDeltaInputs<FlexTensor> {
    GeneralizedDeltaInputs {
        r: contiguous(inputs.r),
        decay: contiguous(inputs.decay),
        k: contiguous(inputs.k),
        v: contiguous(inputs.v),
        a: contiguous(inputs.a),
        b: contiguous(inputs.b),
    }
}

/// A head of a row.
#[derive(Clone, Copy)]
struct Task {
    row: usize,
    head: usize,
}

/// Everything that both passes read.
struct Problem<'a> {
    batch: usize,
    seq: usize,
    channels: usize,
    heads: usize,
    /// Numbers of a head.
    n: usize,
    /// The same, filled up to whole registers.
    wide: usize,
    inputs: GeneralizedDeltaInputs<&'a [f32]>,
    settings: &'a GeneralizedDeltaSettings,
}

impl<'a> Problem<'a> {
    fn new(
        inputs: &'a GeneralizedDeltaInputs<FlexTensor>,
        settings: &'a GeneralizedDeltaSettings,
    ) -> Self {
        let ([batch, seq, channels], n) = (dims(&inputs.r), settings.n);
        Self {
            batch,
            seq,
            channels,
            heads: channels / n,
            n,
            wide: n.next_multiple_of(LANES),
            inputs: GeneralizedDeltaInputs {
                r: slice(&inputs.r),
                decay: slice(&inputs.decay),
                k: slice(&inputs.k),
                v: slice(&inputs.v),
                a: slice(&inputs.a),
                b: slice(&inputs.b),
            },
            settings,
        }
    }

    /// Chunks of a row.
    fn chunks(&self) -> usize {
        self.seq.div_ceil(CHUNK)
    }

    /// Numbers of a head's state as it is carried, `[n, wide]`.
    fn numbers(&self) -> usize {
        self.n * self.wide
    }

    /// Calls `work` for each head of each row, on all threads when there is enough to do.
    fn each(&self, work: impl Fn(Task) + Sync) {
        let task = |number: usize| Task {
            row: number / self.heads,
            head: number % self.heads,
        };
        let tasks = (0..self.batch * self.heads).map(task);
        if self.batch * self.seq * self.channels * self.n <= FEW {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    fn row(&self, task: Task) -> Row<'_> {
        Row::new(&self.settings.sequences, task.row, self.seq)
    }

    /// Where a head's numbers of a position lie in `[batch, seq, channels]`.
    #[inline(always)]
    fn place(&self, task: Task, at: usize) -> Range<usize> {
        let first = (task.row * self.seq + at) * self.channels + task.head * self.n;
        first..first + self.n
    }

    /// Where the state before a chunk lies in `[batch, heads, chunks, n, wide]`.
    fn kept(&self, task: Task, chunk: usize) -> Range<usize> {
        let before = (task.row * self.heads + task.head) * self.chunks() + chunk;
        before * self.numbers()..(before + 1) * self.numbers()
    }

    /// Where a head's state begins among those of a row, `[heads, n, n]`.
    fn carried(&self, task: Task) -> usize {
        task.head * self.n * self.n
    }

    /// The inputs of a head at a position, with its decays, for which there is room.
    #[inline(always)]
    fn position<'p, S: Simd>(
        &'p self,
        simd: S,
        task: Task,
        at: usize,
        w: &'p mut [f32],
    ) -> Position<'p> {
        let (inputs, place) = (&self.inputs, self.place(task, at));
        let decay = &inputs.decay[place.clone()];
        for lane in (0..self.n).step_by(S::F32_LANES) {
            store(simd, exp_below(load(simd, decay, lane)), w, lane);
        }
        Position {
            r: &inputs.r[place.clone()],
            w: &w[..self.n],
            k: &inputs.k[place.clone()],
            v: &inputs.v[place.clone()],
            a: &inputs.a[place.clone()],
            b: &inputs.b[place],
        }
    }
}

/// The inputs of a head at a position, n numbers each.
#[derive(Clone, Copy)]
struct Position<'a> {
    r: &'a [f32],
    w: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    a: &'a [f32],
    b: &'a [f32],
}

/// What a state `[n, wide]` says of a direction, in the `R` registers of a value from number `first` on.
#[inline(always)]
fn found<S: Simd, const R: usize>(
    simd: S,
    state: &[f32],
    direction: &[f32],
    first: usize,
) -> [Vector<S>; R] {
    let per = state.len() / direction.len() / S::F32_LANES;
    let zero = Vector::splat(simd, 0.0);
    let mut found = [zero; R];
    let rows = registers::<S>(state).chunks_exact(per);
    for (row, share) in rows.zip(direction) {
        let share = zero.same(*share);
        for (found, number) in found.iter_mut().zip(&row[first..first + R]) {
            *found = share.mul_add(Vector::new(simd, *number), *found);
        }
    }
    found
}

/// The registers of a value from number `first` on, of `R`.
#[inline(always)]
fn value<S: Simd, const R: usize>(simd: S, numbers: &[f32], first: usize) -> [Vector<S>; R] {
    let mut value = [Vector::splat(simd, 0.0); R];
    for (i, register) in value.iter_mut().enumerate() {
        *register = load(simd, numbers, (first + i) * S::F32_LANES);
    }
    value
}

/// Goes from a state to the one behind a position, in `R` registers of a value, and reads it.
#[inline(always)]
fn advanced<S: Simd, const R: usize>(
    simd: S,
    state: &mut [f32],
    position: Position,
    first: usize,
    found: [Vector<S>; R],
) -> [Vector<S>; R] {
    let per = state.len() / position.k.len() / S::F32_LANES;
    let zero = Vector::splat(simd, 0.0);
    let v = value::<S, R>(simd, position.v, first);
    let mut read = [zero; R];
    let Position { r, w, k, b, .. } = position;
    let rows = registers_mut::<S>(state).chunks_exact_mut(per);
    for ((((row, r), w), k), b) in rows.zip(r).zip(w).zip(k).zip(b) {
        let [r, w, k, b] = [r, w, k, b].map(|x| zero.same(*x));
        let numbers = row[first..first + R].iter_mut().zip(&mut read);
        for ((number, read), (v, found)) in numbers.zip(v.iter().zip(&found)) {
            let kept = w * Vector::new(simd, *number);
            let next = b.mul_add(*found, k.mul_add(*v, kept));
            *number = next.lanes();
            *read = r.mul_add(next, *read);
        }
    }
    read
}
