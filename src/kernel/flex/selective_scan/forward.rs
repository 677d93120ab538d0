//! The forward pass.

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::{CHUNK, Problem, STRIP, Strip};
use crate::kernel::extension::Maybe;
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, slice, tensor, zeros};
use crate::kernel::flex::math::{exp_below, sigmoid};
use crate::kernel::flex::simd::{Vector, run};
use crate::kernel::flex::strips::{Row, load, registers, registers_mut, softplus, store};

/// Returns the output, followed by the last states if they are requested, and, if `saving`, the states before each
/// chunk; otherwise that tensor is empty.
pub fn forward(problem: &Problem, state: Maybe<Flex>, saving: bool) -> (FlexTensor, FlexTensor) {
    let Problem {
        batch,
        seq,
        channels,
        n,
        settings,
        ..
    } = *problem;
    let state = state.into_option().map(contiguous);
    let state = state.as_ref().map(slice);
    let rows = batch * seq + if settings.last { batch * n } else { 0 };
    let chunks = if saving { problem.chunks() } else { 0 };
    let mut out = zeros(rows * channels);
    let mut states = zeros(batch * chunks * n * channels);
    let (to, kept) = (SharedBuffer::new(&mut out), SharedBuffer::new(&mut states));
    problem.for_each_task(|task| {
        let row = problem.row(task);
        for strip in problem.strips(task.group) {
            let mut h = match state {
                Some(state) => {
                    let of_row = &state[task.row * n * channels..][..n * channels];
                    problem.padded(of_row, &strip.channels)
                }
                None => vec![0.0; n * STRIP],
            };
            for (chunk, times) in row.chunks(CHUNK).enumerate() {
                if saving {
                    write(
                        &h,
                        problem.kept(task.row, chunk, &strip),
                        &strip,
                        channels,
                        &kept,
                    );
                }
                run(Steps {
                    problem,
                    row: &row,
                    number: task.row,
                    strip: &strip,
                    times,
                    h: &mut h,
                    to: &to,
                });
            }
            if settings.last {
                let first = (batch * seq + task.row * n) * channels + strip.channels.start;
                write(&h, first, &strip, channels, &to);
            }
        }
    });
    (
        tensor(out, [rows, channels]),
        tensor(states, [batch, chunks, n, channels]),
    )
}

/// Writes the states of a strip into rows of all channels; `first` is the offset of its first element.
fn write(h: &[f32], first: usize, strip: &Strip, channels: usize, to: &SharedBuffer) {
    let len = strip.channels.len();
    for (number, h) in h.chunks_exact(STRIP).enumerate() {
        // SAFETY: only the calling task writes this row's states of these channels.
        let to = unsafe { to.row(first + number * channels, len) };
        to.copy_from_slice(&h[..len]);
    }
}

/// Some positions of a strip.
struct Steps<'a> {
    problem: &'a Problem<'a>,
    row: &'a Row<'a>,
    number: usize,
    strip: &'a Strip,
    times: Range<usize>,
    /// States of the strip, `[n, STRIP]`.
    h: &'a mut [f32],
    to: &'a SharedBuffer,
}

impl WithSimd for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            problem,
            row,
            number,
            strip,
            times,
            h,
            to,
        } = self;
        let inputs = &problem.inputs;
        let per = STRIP / S::F32_LANES;
        for at in times {
            if row.begins(at) {
                h.fill(0.0);
            }
            let place = problem.place(number, at, strip);
            let [u, raw, gate] = [inputs.u, inputs.raw, inputs.gate].map(|x| &x[place.clone()]);
            // SAFETY: only this task writes these channels of this position.
            let y = unsafe { to.row(place.start, place.len()) };
            let (b, c) = problem.directions(number, at);
            for lane in (0..place.len()).step_by(S::F32_LANES) {
                let u = load(simd, u, lane);
                let delta = softplus(load(simd, raw, lane));
                let written = delta * u;
                let mut sum = load(simd, &strip.skip, lane) * u;
                let (h, decay) = (registers_mut::<S>(h), registers::<S>(&strip.decay));
                for (number, (b, c)) in b.iter().zip(c).enumerate() {
                    let place = number * per + lane / S::F32_LANES;
                    let kept = exp_below(delta * Vector::new(simd, decay[place]));
                    let next = kept.mul_add(Vector::new(simd, h[place]), written * *b);
                    h[place] = next.lanes();
                    sum = next.mul_add(sum.splat_like(*c), sum);
                }
                let gate = load(simd, gate, lane);
                store(simd, sum * gate * sigmoid(gate), y, lane);
            }
        }
    }
}
