//! The backward pass: chunk by chunk from the last, recomputing the sums within a chunk. With A and B the sums before
//! a position and D the denominator at it, g = dy·σ(r)/D. The gradients of the sums are ∂A = Σ e^{..} g and ∂B = −Σ
//! e^{..} g·wkv over the later positions; like the sums, they are carried together with their exponent.

use std::ops::Range;

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::{CHUNK, Problem, STRIP_WIDTH, State, Strip, advanced, by_larger};
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, slice, tensor, zeros};
use crate::kernel::flex::math::{exp_below, sigmoid};
use crate::kernel::flex::simd::{Vector, run};
use crate::kernel::flex::strips::{Row, load, store, sum_vectors};
use crate::kernel::wkv::STATE_VECTORS;
use crate::kernel::wkv::extension::WkvInputs;

/// Outputs for the gradients.
struct Gradients {
    r: SharedBuffer,
    k: SharedBuffer,
    v: SharedBuffer,
    /// Gradient of decay, `[batch, channels]`.
    decay: SharedBuffer,
    /// Gradient of the bonus, `[batch, channels]`.
    first: SharedBuffer,
}

/// Returns the gradients of all inputs; `states` are those before each chunk.
pub fn backward(problem: &Problem, states: &FlexTensor, grad: FlexTensor) -> WkvInputs<FlexTensor> {
    let Problem {
        batch,
        seq,
        channels,
        ..
    } = *problem;
    let (grad, states) = (contiguous(grad), slice(states));
    let [mut r, mut k, mut v] = [0; 3].map(|_| zeros(batch * seq * channels));
    let [mut decay, mut first] = [0; 2].map(|_| zeros(batch * channels));
    let gradients = Gradients {
        r: SharedBuffer::new(&mut r),
        k: SharedBuffer::new(&mut k),
        v: SharedBuffer::new(&mut v),
        decay: SharedBuffer::new(&mut decay),
        first: SharedBuffer::new(&mut first),
    };
    Strip::for_each_strip([batch, seq, channels], |strip| {
        let row = problem.row(&strip);
        let (start, len) = (strip.channels.start, strip.channels.len());
        let mut sums = Sums {
            later: State::EMPTY,
            decay: [0.0; STRIP_WIDTH],
            first: [0.0; STRIP_WIDTH],
        };
        for (chunk, times) in row.chunks(CHUNK).enumerate().rev() {
            let mut before = State::EMPTY;
            for (part, before) in before.0.iter_mut().enumerate() {
                let kept = problem.kept(&strip, chunk, part);
                before[..len].copy_from_slice(&states[kept..][..len]);
            }
            run(Steps {
                problem,
                row: &row,
                strip: &strip,
                times,
                before: vec![before],
                grad: slice(&grad),
                sums: &mut sums,
                to: &gradients,
            });
        }
        let at = strip.row * channels + start;
        // SAFETY: only this task writes this row's sums of these channels.
        let [of_decay, of_first] =
            [&gradients.decay, &gradients.first].map(|to| unsafe { to.row(at, len) });
        of_decay.copy_from_slice(&sums.decay[..len]);
        of_first.copy_from_slice(&sums.first[..len]);
    });
    let shape = [batch, seq, channels];
    WkvInputs {
        r: tensor(r, shape),
        k: tensor(k, shape),
        v: tensor(v, shape),
        decay: tensor(sum_vectors(&decay, channels), [channels]),
        bonus: tensor(sum_vectors(&first, channels), [channels]),
    }
}

/// The sums that a strip carries from later positions to earlier ones.
struct Sums {
    /// Gradients of both sums.
    later: State,
    decay: [f32; STRIP_WIDTH],
    first: [f32; STRIP_WIDTH],
}

/// The positions of a chunk of a strip.
struct Steps<'a> {
    problem: &'a Problem<'a>,
    row: &'a Row<'a>,
    strip: &'a Strip,
    times: Range<usize>,
    /// The sums before each position of the chunk; initially only those before the first one.
    before: Vec<State>,
    grad: &'a [f32],
    sums: &'a mut Sums,
    to: &'a Gradients,
}

impl WithSimd for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = (0..self.strip.channels.len()).step_by(S::F32_LANES);
        for (i, at) in self.times.clone().enumerate() {
            if self.row.begins(at) {
                self.before[i] = State::EMPTY;
            }
            if at + 1 < self.times.end {
                let mut after = State::EMPTY;
                for lane in lanes.clone() {
                    self.recompute(simd, [i, at], lane, &mut after);
                }
                self.before.push(after);
            }
        }
        for (i, at) in self.times.clone().enumerate().rev() {
            for lane in lanes.clone() {
                self.back(simd, [i, at], lane);
            }
            if self.row.begins(at) {
                self.sums.later = State::EMPTY;
            }
        }
    }
}

impl Steps<'_> {
    /// Loads elements of a parameter.
    #[inline(always)]
    fn parameter<S: Simd>(&self, simd: S, all: &[f32], lane: usize) -> Vector<S> {
        load(simd, &all[self.strip.channels.clone()], lane)
    }

    /// Recomputes the sums after position `at`, number `i` of the chunk.
    #[inline(always)]
    fn recompute<S: Simd>(&self, simd: S, [i, at]: [usize; 2], lane: usize, after: &mut State) {
        let inputs = &self.problem.inputs;
        let place = self.problem.place(self.strip, at);
        let kv = [inputs.k, inputs.v].map(|x| load(simd, &x[place.clone()], lane));
        let decay = self.parameter(simd, inputs.decay, lane);
        let state = self.before[i].load(simd, lane);
        after.store(simd, advanced(state, kv, decay), lane);
    }

    /// Computes the gradients of position `at`, number `i` of the chunk.
    #[inline(always)]
    fn back<S: Simd>(&mut self, simd: S, [i, at]: [usize; 2], lane: usize) {
        let inputs = &self.problem.inputs;
        let place = self.problem.place(self.strip, at);
        let rows = [inputs.r, inputs.k, inputs.v, self.grad];
        let [r, k, v, grad] = rows.map(|x| load(simd, &x[place.clone()], lane));
        let [decay, first] = [inputs.decay, inputs.bonus].map(|x| self.parameter(simd, x, lane));
        let [a, b, p] = self.before[i].load(simd, lane);
        let [of_a, of_b, q] = self.sums.later.load(simd, lane);
        let [largest, old, new] = by_larger(p, k + first);
        let below = old.mul_add(b, new);
        let mean = old.mul_add(a, new * v) / below;
        let opened = sigmoid(r);
        let g = grad * opened / below;
        let own = g * new;
        let later = exp_below(k + q);
        let of_first = own * (v - mean);
        let of_k = later.mul_add(of_a.mul_add(v, of_b), of_first);
        let of_v = later.mul_add(of_a, own);
        let of_r = grad * mean * opened * (r.splat_like(1.0) - opened);
        let of_decay = exp_below(decay + p + q) * of_a.mul_add(a, of_b * b);
        let [q, kept, added] = by_larger(q + decay, -largest);
        let g = added * g;
        let of_sums: [Vector<S>; STATE_VECTORS] =
            [kept.mul_add(of_a, g), kept.mul_add(of_b, -(g * mean)), q];
        self.sums.later.store(simd, of_sums, lane);
        let to = load(simd, &self.sums.decay, lane) + of_decay;
        store(simd, to, &mut self.sums.decay, lane);
        let to = load(simd, &self.sums.first, lane) + of_first;
        store(simd, to, &mut self.sums.first, lane);
        // SAFETY: only this task writes these channels of this position.
        let [to_r, to_k, to_v] = [&self.to.r, &self.to.k, &self.to.v]
            .map(|to| unsafe { to.row(place.start, place.len()) });
        store(simd, of_r, to_r, lane);
        store(simd, of_k, to_k, lane);
        store(simd, of_v, to_v, lane);
    }
}
