//! The backward pass: chunk by chunk from the last, recomputing the states within a chunk. Let D be the gradient of
//! the state after a position, with dy rᵀ added, S the state before it, and s = S a:
//!
//! ```text
//! ∂v = D k    ∂k = Dᵀ v    ∂b = Dᵀ s    ∂s = D b    ∂a = Sᵀ ∂s    ∂w = diag(Dᵀ S)    ∂S = D diag(w) + ∂s aᵀ
//! ∂r = Sᵀ dy ⊙ w + (s·dy) b + (v·dy) k
//! ```

use std::ops::Range;

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::{BESIDE, CHUNK, Position, Problem, Task, advance, multiply_by_state, value};
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, scratch_buffer, slice, tensor, zeros};
use crate::kernel::flex::simd::{Vector, row_sum, run};
use crate::kernel::flex::strips::{Row, registers, registers_mut, store};
use crate::kernel::generalized_delta::extension::GeneralizedDeltaInputs;

/// Returns the gradients of all inputs; `states` are those before each chunk.
pub fn backward(
    problem: &Problem,
    states: &FlexTensor,
    grad: FlexTensor,
) -> GeneralizedDeltaInputs<FlexTensor> {
    let Problem {
        batch,
        seq,
        channels,
        wide,
        ..
    } = *problem;
    let (grad, states) = (contiguous(grad), slice(states));
    let [mut r, mut decay, mut k, mut v, mut a, mut b] =
        [0; 6].map(|_| zeros(batch * seq * channels));
    let to = GeneralizedDeltaInputs {
        r: SharedBuffer::new(&mut r),
        decay: SharedBuffer::new(&mut decay),
        k: SharedBuffer::new(&mut k),
        v: SharedBuffer::new(&mut v),
        a: SharedBuffer::new(&mut a),
        b: SharedBuffer::new(&mut b),
    };
    problem.for_each_task(|task| {
        let len = problem.numbers();
        let mut later = scratch_buffer(len);
        later.fill(0.0);
        let [mut inner, mut answers] = [CHUNK * len, CHUNK * wide].map(scratch_buffer);
        let mut w = scratch_buffer(wide);
        let row = problem.row(task);
        for (chunk, times) in row.chunks(CHUNK).enumerate().rev() {
            inner[..len].copy_from_slice(&states[problem.kept(task, chunk)]);
            run(Steps {
                problem,
                row: &row,
                task,
                times,
                grad: slice(&grad),
                states: &mut inner,
                answers: &mut answers,
                later: &mut later,
                w: &mut w,
                to: &to,
            });
        }
    });
    let shape = [batch, seq, channels];
    GeneralizedDeltaInputs {
        r: tensor(r, shape),
        decay: tensor(decay, shape),
        k: tensor(k, shape),
        v: tensor(v, shape),
        a: tensor(a, shape),
        b: tensor(b, shape),
    }
}

/// The positions of a chunk of a head.
struct Steps<'a> {
    problem: &'a Problem<'a>,
    row: &'a Row<'a>,
    task: Task,
    times: Range<usize>,
    grad: &'a [f32],
    /// Scratch memory for the states before all positions, `[CHUNK, n, wide]`; that before the first one is given.
    states: &'a mut [f32],
    /// Scratch memory for their products with a, `[CHUNK, wide]`.
    answers: &'a mut [f32],
    /// Gradient of the state after a position, `[n, wide]`.
    later: &'a mut [f32],
    /// Scratch memory for the decays of a position.
    w: &'a mut [f32],
    to: &'a GeneralizedDeltaInputs<SharedBuffer>,
}

impl WithSimd for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for (i, at) in self.times.clone().enumerate() {
            self.recompute(simd, [i, at]);
        }
        for (i, at) in self.times.clone().enumerate().rev() {
            self.back(simd, [i, at]);
            if self.row.begins(at) {
                self.later.fill(0.0);
            }
        }
    }
}

impl Steps<'_> {
    /// Recomputes the product of the state before position `at`, number `i` of the chunk, with a, and the state after
    /// it.
    #[inline(always)]
    fn recompute<S: Simd>(&mut self, simd: S, [i, at]: [usize; 2]) {
        let (len, wide) = (self.problem.numbers(), self.problem.wide);
        let position = self.problem.position(simd, self.task, at, self.w);
        let (own, behind) = self.states[i * len..].split_at_mut(len);
        if self.row.begins(at) {
            own.fill(0.0);
        }
        let behind = match at + 1 < self.times.end {
            true => &mut behind[..len],
            false => &mut [],
        };
        if !behind.is_empty() {
            behind.copy_from_slice(own);
        }
        let answers = &mut self.answers[i * wide..][..wide];
        let registers = self.problem.n.div_ceil(S::F32_LANES);
        beside!(registers, |first, R| query_state::<S, R>(
            simd, first, position, own, behind, answers
        ));
    }

    /// Computes the gradients of position `at`, number `i` of the chunk.
    #[inline(always)]
    fn back<S: Simd>(&mut self, simd: S, [i, at]: [usize; 2]) {
        let (n, len, wide) = (self.problem.n, self.problem.numbers(), self.problem.wide);
        let place = self.problem.place(self.task, at);
        let to = self.to;
        let rows = [&to.r, &to.decay, &to.k, &to.v, &to.a, &to.b];
        // SAFETY: only this task writes this head's elements of this position.
        let [r, w, k, v, a, b] = rows.map(|to| unsafe { to.row(place.start, n) });
        let mut to = Gradients { r, w, k, v, a, b };
        let position = self.problem.position(simd, self.task, at, self.w);
        let before = Before {
            state: &self.states[i * len..][..len],
            answers: &self.answers[i * wide..][..wide],
            grad: &self.grad[place],
        };
        let registers = n.div_ceil(S::F32_LANES);
        beside!(registers, |first, R| columns::<S, R>(
            simd, first, position, &before, self.later, &mut to
        ));
        let dot = |x: &[f32]| row_sum(simd, [before.grad, x], |[x, y]| x * y);
        let [of_answers, of_values] = [&before.answers[..n], position.v].map(dot);
        let Position { w, k, b, .. } = position;
        for ((((of_r, of_w), w), k), b) in to.r.iter_mut().zip(to.w).zip(w).zip(k).zip(b) {
            *of_r = *of_r * w + of_answers * b + of_values * k;
            // The gradient of w's logarithm.
            *of_w *= w;
        }
    }
}

/// Computes the product of a state with a position's a and, if `behind` is not empty, the state after the position,
/// in `R` registers of a value from register `first` on.
#[inline(always)]
fn query_state<S: Simd, const R: usize>(
    simd: S,
    first: usize,
    position: Position,
    own: &[f32],
    behind: &mut [f32],
    answers: &mut [f32],
) {
    let found = multiply_by_state::<S, R>(simd, own, position.a, first);
    for (i, found) in found.iter().enumerate() {
        store(simd, *found, answers, (first + i) * S::F32_LANES);
    }
    if !behind.is_empty() {
        advance::<S, R>(simd, behind, position, first, found);
    }
}

/// The values of a position that its gradients depend on.
struct Before<'a> {
    /// The state before the position, `[n, wide]`.
    state: &'a [f32],
    /// The product of the state with a, `[wide]`.
    answers: &'a [f32],
    /// Gradient of the output, `[n]`.
    grad: &'a [f32],
}

/// Outputs for a position's gradients, n elements each; sums over the elements of a value are accumulated.
struct Gradients<'a> {
    /// Only Sᵀ dy so far.
    r: &'a mut [f32],
    w: &'a mut [f32],
    k: &'a mut [f32],
    v: &'a mut [f32],
    a: &'a mut [f32],
    b: &'a mut [f32],
}

/// Adds the contribution of `R` registers of a value, from register `first` on, to the gradients of a position;
/// `later` becomes the gradient of the state before it.
#[inline(always)]
fn columns<S: Simd, const R: usize>(
    simd: S,
    first: usize,
    position: Position,
    before: &Before,
    later: &mut [f32],
    to: &mut Gradients,
) {
    let per = later.len() / position.k.len() / S::F32_LANES;
    let zero = Vector::splat(simd, 0.0);
    let own = first..first + R;
    let [grad, answers, v] = [before.grad, before.answers, position.v]
        .map(|numbers| value::<S, R>(simd, numbers, first));
    let (mut of_v, mut of_answers) = ([zero; R], [zero; R]);
    let later = registers_mut::<S>(later);
    let state = registers::<S>(before.state);
    let Position { r, k, a, b, w, .. } = position;
    for key in 0..k.len() {
        let [r, k, b] = [r[key], k[key], b[key]].map(|x| zero.splat_like(x));
        let later = &mut later[key * per..][own.clone()];
        let state = &state[key * per..][own.clone()];
        let [mut of_k, mut of_b, mut of_w, mut read] = [zero; 4];
        for (i, (later, state)) in later.iter_mut().zip(state).enumerate() {
            let state = Vector::new(simd, *state);
            let of_state = r.mul_add(grad[i], Vector::new(simd, *later));
            *later = of_state.lanes();
            of_v[i] = k.mul_add(of_state, of_v[i]);
            of_answers[i] = b.mul_add(of_state, of_answers[i]);
            of_k = v[i].mul_add(of_state, of_k);
            of_b = answers[i].mul_add(of_state, of_b);
            of_w = state.mul_add(of_state, of_w);
            read = grad[i].mul_add(state, read);
        }
        to.k[key] += of_k.sum();
        to.b[key] += of_b.sum();
        to.w[key] += of_w.sum();
        to.r[key] += read.sum();
    }
    for key in 0..k.len() {
        let [w, a] = [w[key], a[key]].map(|x| zero.splat_like(x));
        let later = &mut later[key * per..][own.clone()];
        let state = &state[key * per..][own.clone()];
        let mut of_a = zero;
        for ((later, state), answers) in later.iter_mut().zip(state).zip(&of_answers) {
            of_a = answers.mul_add(Vector::new(simd, *state), of_a);
            let passed = w * Vector::new(simd, *later);
            *later = a.mul_add(*answers, passed).lanes();
        }
        to.a[key] += of_a.sum();
    }
    for (i, of_v) in of_v.into_iter().enumerate() {
        store(simd, of_v, to.v, (first + i) * S::F32_LANES);
    }
}
