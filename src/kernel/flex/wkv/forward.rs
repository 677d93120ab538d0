//! The forward pass.

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::{CHUNK, Problem, State, Strip, advanced, by_larger};
use crate::kernel::extension::Maybe;
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, slice, tensor, zeros};
use crate::kernel::flex::math::sigmoid;
use crate::kernel::flex::simd::run;
use crate::kernel::flex::strips::{Row, load, store};
use crate::kernel::wkv::{EMPTY_EXPONENT, STATE_VECTORS};

/// Returns the output, followed by the last states if they are requested, and, if `saving`, the states before each
/// chunk; otherwise that tensor is empty.
pub fn forward(problem: &Problem, state: Maybe<Flex>, saving: bool) -> (FlexTensor, FlexTensor) {
    let Problem {
        batch,
        seq,
        channels,
        settings,
        ..
    } = *problem;
    let state = state.into_option().map(contiguous);
    let state = state.as_ref().map(slice);
    let rows = batch * seq
        + if settings.last {
            batch * STATE_VECTORS
        } else {
            0
        };
    let chunks = if saving { problem.chunks() } else { 0 };
    let mut out = zeros(rows * channels);
    let mut states = zeros(batch * chunks * STATE_VECTORS * channels);
    let (to, kept) = (SharedBuffer::new(&mut out), SharedBuffer::new(&mut states));
    Strip::for_each_strip([batch, seq, channels], |strip| {
        let len = strip.channels.len();
        let mut sums = State::EMPTY;
        for (part, sums) in sums.0.iter_mut().enumerate() {
            if let Some(state) = state {
                let first = (strip.row * STATE_VECTORS + part) * channels + strip.channels.start;
                sums[..len].copy_from_slice(&state[first..][..len]);
            }
        }
        sums.mark_nothing(EMPTY_EXPONENT);
        let row = problem.row(&strip);
        for (chunk, times) in row.chunks(CHUNK).enumerate() {
            for (part, sums) in sums.0.iter().enumerate().filter(|_| saving) {
                // SAFETY: only this task writes this row's states of these channels.
                let to = unsafe { kept.row(problem.kept(&strip, chunk, part), len) };
                to.copy_from_slice(&sums[..len]);
            }
            run(Steps {
                problem,
                row: &row,
                strip: &strip,
                times,
                sums: &mut sums,
                to: &to,
            });
        }
        sums.mark_nothing(0.0);
        for (part, sums) in sums.0.iter().enumerate().filter(|_| settings.last) {
            let first = batch * seq + strip.row * STATE_VECTORS + part;
            // SAFETY: as above.
            let to = unsafe { to.row(first * channels + strip.channels.start, len) };
            to.copy_from_slice(&sums[..len]);
        }
    });
    (
        tensor(out, [rows, channels]),
        tensor(states, [batch, chunks, STATE_VECTORS, channels]),
    )
}

/// Some positions of a strip.
struct Steps<'a> {
    problem: &'a Problem<'a>,
    row: &'a Row<'a>,
    strip: &'a Strip,
    times: Range<usize>,
    sums: &'a mut State,
    to: &'a SharedBuffer,
}

impl WithSimd for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            problem,
            row,
            strip,
            times,
            sums,
            to,
        } = self;
        let inputs = &problem.inputs;
        let [decay, first] = [inputs.decay, inputs.bonus].map(|x| &x[strip.channels.clone()]);
        for at in times {
            if row.begins(at) {
                *sums = State::EMPTY;
            }
            let place = problem.place(strip, at);
            let rows = [inputs.r, inputs.k, inputs.v].map(|x| &x[place.clone()]);
            // SAFETY: only this task writes these channels of this position.
            let y = unsafe { to.row(place.start, place.len()) };
            for lane in (0..place.len()).step_by(S::F32_LANES) {
                let [r, k, v] = rows.map(|x| load(simd, x, lane));
                let state @ [a, b, p] = sums.load(simd, lane);
                let [_, old, new] = by_larger(p, k + load(simd, first, lane));
                let mean = old.mul_add(a, new * v) / old.mul_add(b, new);
                store(simd, sigmoid(r) * mean, y, lane);
                let after = advanced(state, [k, v], load(simd, decay, lane));
                sums.store(simd, after, lane);
            }
        }
    }
}
