//! The backward pass: chunk by chunk from the last, recomputing the states within a chunk.

use std::ops::Range;

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::{CHUNK, Problem, STRIP, Strip, Task};
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, scratch_buffer, slice, tensor, zeros};
use crate::kernel::flex::math::{exp_below, sigmoid};
use crate::kernel::flex::simd::{Vector, run};
use crate::kernel::flex::strips::{
    Row, load, registers, registers_mut, softplus, store, sum_vectors, transpose,
};
use crate::kernel::selective_scan::extension::ScanInputs;

/// Outputs for the gradients.
struct Gradients {
    u: SharedBuffer,
    raw: SharedBuffer,
    gate: SharedBuffer,
    /// Gradient of decay, `[batch, n, channels]`.
    decay: SharedBuffer,
    /// Gradients of b and c, `[groups, batch, seq, 2n]`.
    directions: SharedBuffer,
    /// Gradient of the skip, `[batch, channels]`.
    skip: SharedBuffer,
}

/// Returns the gradients of all inputs; `states` are those before each chunk.
pub fn backward(
    problem: &Problem,
    states: &FlexTensor,
    grad: FlexTensor,
) -> ScanInputs<FlexTensor> {
    let Problem {
        batch,
        seq,
        channels,
        n,
        ..
    } = *problem;
    let (grad, states) = (contiguous(grad), slice(states));
    let wide = batch * seq * channels;
    let of_directions = batch * seq * 2 * n;
    let [mut u, mut raw, mut gate] = [0; 3].map(|_| zeros(wide));
    let mut decay = zeros(batch * n * channels);
    let mut directions = zeros(problem.groups() * of_directions);
    let mut skip = zeros(batch * channels);
    let gradients = Gradients {
        u: SharedBuffer::new(&mut u),
        raw: SharedBuffer::new(&mut raw),
        gate: SharedBuffer::new(&mut gate),
        decay: SharedBuffer::new(&mut decay),
        directions: SharedBuffer::new(&mut directions),
        skip: SharedBuffer::new(&mut skip),
    };
    problem.for_each_task(|task| of_task(problem, states, slice(&grad), task, &gradients));
    let decay = transpose(&sum_vectors(&decay, n * channels), [n, channels]);
    let shape = [batch, seq, channels];
    ScanInputs {
        u: tensor(u, shape),
        raw: tensor(raw, shape),
        gate: tensor(gate, shape),
        decay: tensor(decay, [channels, n]),
        directions: tensor(sum_vectors(&directions, of_directions), [batch, seq, 2 * n]),
        skip: tensor(sum_vectors(&skip, channels), [channels]),
    }
}

/// Computes the gradients of a row's strips.
fn of_task(problem: &Problem, states: &[f32], grad: &[f32], task: Task, gradients: &Gradients) {
    let Problem {
        batch,
        seq,
        channels,
        n,
        ..
    } = *problem;
    let row = problem.row(task);
    let strips = problem.strips(task.group);
    let mut sums: Vec<Sums> = strips.iter().map(|_| Sums::new(n)).collect();
    let len = CHUNK * n * STRIP;
    let mut rooms = [0; 4].map(|_| scratch_buffer(len));
    for (chunk, times) in row.chunks(CHUNK).enumerate().rev() {
        let [decays, inner, of_b, of_c] = &mut rooms;
        of_b[..len].fill(0.0);
        of_c[..len].fill(0.0);
        for (strip, sums) in strips.iter().zip(&mut sums) {
            let first = problem.kept(task.row, chunk, strip) - strip.channels.start;
            let before = &states[first..][..n * channels];
            run(Steps {
                problem,
                row: &row,
                number: task.row,
                strip,
                times: times.clone(),
                before: problem.padded(before, &strip.channels),
                grad,
                decays,
                inner,
                of_directions: [of_b, of_c],
                sums,
                to: gradients,
            });
        }
        let first = (task.group * batch + task.row) * seq;
        for (i, at) in times.enumerate() {
            // SAFETY: only this task writes this group's sums of this position.
            let to = unsafe { gradients.directions.row((first + at) * 2 * n, 2 * n) };
            let each = [&*of_b, &*of_c].map(|all| &all[i * n * STRIP..][..n * STRIP]);
            run(LaneSums(each, to));
        }
    }
    for (strip, sums) in strips.iter().zip(&sums) {
        sums.write(task.row, strip, channels, gradients);
    }
}

/// The sums that a strip carries from later positions to earlier ones.
struct Sums {
    /// Gradient of the states, `[n, STRIP]`.
    h: Vec<f32>,
    /// Gradient of decay, `[n, STRIP]`.
    decay: Vec<f32>,
    skip: [f32; STRIP],
}

impl Sums {
    fn new(n: usize) -> Self {
        Self {
            h: vec![0.0; n * STRIP],
            decay: vec![0.0; n * STRIP],
            skip: [0.0; STRIP],
        }
    }

    /// Writes the row's contribution to the gradients of the parameters.
    fn write(&self, row: usize, strip: &Strip, channels: usize, to: &Gradients) {
        let (start, len) = (strip.channels.start, strip.channels.len());
        // SAFETY: only this task writes this row's sums of these channels.
        let skip = unsafe { to.skip.row(row * channels + start, len) };
        skip.copy_from_slice(&self.skip[..len]);
        let n = self.decay.len() / STRIP;
        for (number, sums) in self.decay.chunks_exact(STRIP).enumerate() {
            // SAFETY: as above.
            let decay = unsafe { to.decay.row((row * n + number) * channels + start, len) };
            decay.copy_from_slice(&sums[..len]);
        }
    }
}

/// Sums the gradients of b, then those of c, each `[n, STRIP]`, over the lanes.
struct LaneSums<'a>([&'a [f32]; 2], &'a mut [f32]);

impl WithSimd for LaneSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self([of_b, of_c], to) = self;
        let rows = of_b.chunks_exact(STRIP).chain(of_c.chunks_exact(STRIP));
        for (row, to) in rows.zip(to) {
            let mut sum = Vector::splat(simd, 0.0);
            for lane in (0..STRIP).step_by(S::F32_LANES) {
                sum = sum + load(simd, row, lane);
            }
            *to = sum.sum();
        }
    }
}

/// The positions of a chunk of a strip.
struct Steps<'a> {
    problem: &'a Problem<'a>,
    row: &'a Row<'a>,
    number: usize,
    strip: &'a Strip,
    times: Range<usize>,
    /// The states before the chunk, `[n, STRIP]`.
    before: Vec<f32>,
    grad: &'a [f32],
    /// Scratch memory for exp(Δ·a) and the states of all positions, `[CHUNK, n, STRIP]`.
    decays: &'a mut [f32],
    inner: &'a mut [f32],
    /// Gradients of b and c, of the same shape, to which this strip's are added.
    of_directions: [&'a mut [f32]; 2],
    sums: &'a mut Sums,
    to: &'a Gradients,
}

impl WithSimd for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = (0..self.strip.channels.len()).step_by(S::F32_LANES);
        for (i, at) in self.times.clone().enumerate() {
            for lane in lanes.clone() {
                self.recompute(simd, [i, at], lane);
            }
        }
        for (i, at) in self.times.clone().enumerate().rev() {
            for lane in lanes.clone() {
                self.back(simd, [i, at], lane);
            }
        }
    }
}

impl Steps<'_> {
    /// Recomputes the states after position `at`, number `i` of the chunk.
    #[inline(always)]
    fn recompute<S: Simd>(&mut self, simd: S, [i, at]: [usize; 2], lane: usize) {
        let (problem, wide) = (self.problem, self.problem.n * STRIP);
        let place = problem.place(self.number, at, self.strip);
        let [u, raw] =
            [problem.inputs.u, problem.inputs.raw].map(|x| load(simd, &x[place.clone()], lane));
        let delta = softplus(raw);
        let written = delta * u;
        let (b, _) = problem.directions(self.number, at);
        let begins = self.row.begins(at);
        let (earlier, own) = self.inner.split_at_mut(i * wide);
        let before = if i == 0 {
            &self.before[..]
        } else {
            &earlier[(i - 1) * wide..]
        };
        let (per, register) = (STRIP / S::F32_LANES, lane / S::F32_LANES);
        let own = registers_mut::<S>(&mut own[..wide]);
        let kept = registers_mut::<S>(&mut self.decays[i * wide..]);
        let (before, decay) = (registers::<S>(before), registers::<S>(&self.strip.decay));
        for (number, b) in b.iter().enumerate() {
            let place = number * per + register;
            let stays = exp_below(delta * Vector::new(simd, decay[place]));
            kept[place] = stays.lanes();
            let next = written * *b;
            own[place] = match begins {
                true => next.lanes(),
                false => stays
                    .mul_add(Vector::new(simd, before[place]), next)
                    .lanes(),
            };
        }
    }

    /// Computes the gradients of position `at`, number `i` of the chunk.
    #[inline(always)]
    fn back<S: Simd>(&mut self, simd: S, [i, at]: [usize; 2], lane: usize) {
        let (problem, wide) = (self.problem, self.problem.n * STRIP);
        let inputs = &problem.inputs;
        let place = problem.place(self.number, at, self.strip);
        let [u, raw, gate, grad] = [inputs.u, inputs.raw, inputs.gate, self.grad]
            .map(|x| load(simd, &x[place.clone()], lane));
        let (delta, skip) = (softplus(raw), load(simd, &self.strip.skip, lane));
        let opened = sigmoid(gate);
        let of_sum = grad * gate * opened;
        let written = delta * u;
        let (b, c) = problem.directions(self.number, at);
        let begins = self.row.begins(at);
        let zero = u.splat_like(0.0);
        let (mut sum, mut of_delta, mut of_written) = (skip * u, zero, zero);
        let (earlier, own) = self.inner.split_at(i * wide);
        let before = if i == 0 {
            &self.before[..]
        } else {
            &earlier[(i - 1) * wide..]
        };
        let (per, register) = (STRIP / S::F32_LANES, lane / S::F32_LANES);
        let [of_b, of_c] = self
            .of_directions
            .each_mut()
            .map(|x| registers_mut::<S>(&mut x[i * wide..]));
        let [own, stays] = [own, &self.decays[i * wide..]].map(registers::<S>);
        let [before, decay] = [before, &self.strip.decay].map(registers::<S>);
        let later = registers_mut::<S>(&mut self.sums.h);
        let of_decay = registers_mut::<S>(&mut self.sums.decay);
        let v = |lanes: S::f32s| Vector::new(simd, lanes);
        for (number, (b, c)) in b.iter().zip(c).enumerate() {
            let place = number * per + register;
            let h = v(own[place]);
            sum = h.mul_add(zero.splat_like(*c), sum);
            of_c[place] = of_sum.mul_add(h, v(of_c[place])).lanes();
            let of_h = of_sum.mul_add(zero.splat_like(*c), v(later[place]));
            of_b[place] = of_h.mul_add(written, v(of_b[place])).lanes();
            of_written = of_h.mul_add(zero.splat_like(*b), of_written);
            let passed = match begins {
                true => zero,
                false => of_h * v(stays[place]),
            };
            later[place] = passed.lanes();
            let of_exponent = passed * v(before[place]);
            of_delta = of_exponent.mul_add(v(decay[place]), of_delta);
            of_decay[place] = of_exponent.mul_add(delta, v(of_decay[place])).lanes();
        }
        let to = load(simd, &self.sums.skip, lane);
        store(simd, of_sum.mul_add(u, to), &mut self.sums.skip, lane);
        let of_delta = of_written.mul_add(u, of_delta);
        let of_u = of_written.mul_add(delta, of_sum * skip);
        let slope = opened * (gate * (zero.splat_like(1.0) - opened) + zero.splat_like(1.0));
        let of_gate = grad * sum * slope;
        // SAFETY: only this task writes these channels of this position.
        let [to_u, to_raw, to_gate] = [&self.to.u, &self.to.raw, &self.to.gate]
            .map(|to| unsafe { to.row(place.start, place.len()) });
        store(simd, of_u, to_u, lane);
        store(simd, of_delta * sigmoid(raw), to_raw, lane);
        store(simd, of_gate, to_gate, lane);
    }
}
