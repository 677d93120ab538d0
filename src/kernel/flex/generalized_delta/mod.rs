//! The generalised delta rule on the CPU. A task is a head of a row, which scans its positions with the head's state
//! in a core's cache. The elements of a key run along the rows of the state and those of a value along the registers,
//! so that each lane of a register is a separate recurrence. Work is divided by sizes only: no result depends on the
//! number of threads, nor on the other rows.

/// Runs a computation over all registers of a value, for each `first` and a constant count: [`BESIDE`] registers at a
/// time while there are as many, then one by one.
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

/// Lanes of the widest registers: values are padded with zeros to a multiple of it.
const LANES: usize = 16;

/// Number of registers of a value that are processed side by side.
const BESIDE: usize = 4;

/// Number of state elements of all positions up to which a single thread does all the work.
const SINGLE_THREAD_LEN: usize = 16 * 1024;

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

/// Returns the inputs with contiguous elements.
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

/// The inputs of both passes.
struct Problem<'a> {
    batch: usize,
    seq: usize,
    channels: usize,
    heads: usize,
    /// Width of a head.
    n: usize,
    /// Width of a head, padded to whole registers.
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

    /// Returns the number of chunks of a row.
    fn chunks(&self) -> usize {
        self.seq.div_ceil(CHUNK)
    }

    /// Returns the number of elements of a head's padded state, `[n, wide]`.
    fn numbers(&self) -> usize {
        self.n * self.wide
    }

    /// Calls `work` for each head of each row, on all threads if there is enough to do.
    fn for_each_task(&self, work: impl Fn(Task) + Sync) {
        let task = |number: usize| Task {
            row: number / self.heads,
            head: number % self.heads,
        };
        let tasks = (0..self.batch * self.heads).map(task);
        if self.batch * self.seq * self.channels * self.n <= SINGLE_THREAD_LEN {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    fn row(&self, task: Task) -> Row<'_> {
        Row::new(&self.settings.sequences, task.row, self.seq)
    }

    /// Returns the range of a head's elements at a position in `[batch, seq, channels]`.
    #[inline(always)]
    fn place(&self, task: Task, at: usize) -> Range<usize> {
        let first = (task.row * self.seq + at) * self.channels + task.head * self.n;
        first..first + self.n
    }

    /// Returns the range of the state before a chunk in `[batch, heads, chunks, n, wide]`.
    fn kept(&self, task: Task, chunk: usize) -> Range<usize> {
        let before = (task.row * self.heads + task.head) * self.chunks() + chunk;
        before * self.numbers()..(before + 1) * self.numbers()
    }

    /// Returns the offset of a head's state within those of a row, `[heads, n, n]`.
    fn carried(&self, task: Task) -> usize {
        task.head * self.n * self.n
    }

    /// Returns the inputs of a head at a position; its decays are computed into the scratch memory `w`.
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

/// The inputs of a head at a position, n elements each.
#[derive(Clone, Copy)]
struct Position<'a> {
    r: &'a [f32],
    w: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    a: &'a [f32],
    b: &'a [f32],
}

/// Multiplies a direction with a state `[n, wide]`, in `R` registers of a value from register `first` on.
#[inline(always)]
fn multiply_by_state<S: Simd, const R: usize>(
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
        let share = zero.splat_like(*share);
        for (found, number) in found.iter_mut().zip(&row[first..first + R]) {
            *found = share.mul_add(Vector::new(simd, *number), *found);
        }
    }
    found
}

/// Loads `R` registers of a value from register `first` on.
#[inline(always)]
fn value<S: Simd, const R: usize>(simd: S, numbers: &[f32], first: usize) -> [Vector<S>; R] {
    let mut value = [Vector::splat(simd, 0.0); R];
    for (i, register) in value.iter_mut().enumerate() {
        *register = load(simd, numbers, (first + i) * S::F32_LANES);
    }
    value
}

/// Advances a state past a position, in `R` registers of a value, and returns what r reads from it.
#[inline(always)]
fn advance<S: Simd, const R: usize>(
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
        let [r, w, k, b] = [r, w, k, b].map(|x| zero.splat_like(*x));
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
