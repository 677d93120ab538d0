//! RWKV's weighted average on the CPU: a task is a strip of [`STRIP_WIDTH`] channels of a row. Work is divided by sizes
//! only: no result depends on the number of threads, nor on the other rows.

mod backward;
mod forward;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::Simd;

use super::buffer::{contiguous, dims, slice};
use super::math::exp_below;
use super::simd::Vector;
use super::strips::{Row, STRIP_WIDTH, Strip, load, store};
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::wkv::extension::{WkvBackwardOps, WkvInputs, WkvOps, WkvSaved, WkvSettings};
use crate::kernel::wkv::{EMPTY_EXPONENT, STATE_VECTORS};

/// Number of positions between two states that are kept.
const CHUNK: usize = 32;

impl WkvOps for Flex {
    fn wkv(
        r: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        decay: FlexTensor,
        first: FlexTensor,
        state: Maybe<Self>,
        settings: WkvSettings,
    ) -> FlexTensor {
        let inputs = WkvInputs {
            r,
            k,
            v,
            decay,
            bonus: first,
        };
        timed("wkv", || {
            let inputs = plain(inputs);
            forward::forward(&Problem::new(&inputs, &settings), state, false).0
        })
    }
}

impl WkvBackwardOps for Flex {
    fn wkv_saving(
        inputs: WkvInputs<FlexTensor>,
        state: Maybe<Self>,
        settings: &WkvSettings,
    ) -> (FlexTensor, WkvSaved<Self>) {
        timed("wkv", || {
            let inputs = plain(inputs);
            let (out, states) = forward::forward(&Problem::new(&inputs, settings), state, true);
            (out, WkvSaved { inputs, states })
        })
    }

    fn wkv_backward(
        saved: WkvSaved<Self>,
        grad: FlexTensor,
        settings: &WkvSettings,
    ) -> WkvInputs<FlexTensor> {
        timed("wkv, backward", || {
            let problem = Problem::new(&saved.inputs, settings);
            backward::backward(&problem, &saved.states, grad)
        })
    }
}

/// Returns the inputs with contiguous elements.
fn plain(inputs: WkvInputs<FlexTensor>) -> WkvInputs<FlexTensor> {
    WkvInputs {
        r: contiguous(inputs.r),
        k: contiguous(inputs.k),
        v: contiguous(inputs.v),
        decay: contiguous(inputs.decay),
        bonus: contiguous(inputs.bonus),
    }
}

/// The inputs of both passes.
struct Problem<'a> {
    batch: usize,
    seq: usize,
    channels: usize,
    inputs: WkvInputs<&'a [f32]>,
    settings: &'a WkvSettings,
}

impl<'a> Problem<'a> {
    fn new(inputs: &'a WkvInputs<FlexTensor>, settings: &'a WkvSettings) -> Self {
        let [batch, seq, channels] = dims(&inputs.k);
        Self {
            batch,
            seq,
            channels,
            inputs: WkvInputs {
                r: slice(&inputs.r),
                k: slice(&inputs.k),
                v: slice(&inputs.v),
                decay: slice(&inputs.decay),
                bonus: slice(&inputs.bonus),
            },
            settings,
        }
    }

    /// Returns the number of chunks of a row.
    fn chunks(&self) -> usize {
        self.seq.div_ceil(CHUNK)
    }

    fn row(&self, strip: &Strip) -> Row<'_> {
        Row::new(&self.settings.sequences, strip.row, self.seq)
    }

    /// Returns the range of the strip's elements at a position.
    #[inline(always)]
    fn place(&self, strip: &Strip, at: usize) -> Range<usize> {
        strip.place(at, [self.seq, self.channels])
    }

    /// Returns the offset of a part of the strip's state before a chunk in `[batch, chunks, 3, channels]`.
    fn kept(&self, strip: &Strip, chunk: usize, part: usize) -> usize {
        let row = (strip.row * self.chunks() + chunk) * STATE_VECTORS + part;
        row * self.channels + strip.channels.start
    }
}

/// Two sums with a common exponent, a·eᵖ and b·eᵖ, for each channel of a strip.
#[derive(Clone)]
struct State([[f32; STRIP_WIDTH]; STATE_VECTORS]);

impl State {
    /// Empty sums.
    const EMPTY: Self = Self([
        [0.0; STRIP_WIDTH],
        [0.0; STRIP_WIDTH],
        [EMPTY_EXPONENT; STRIP_WIDTH],
    ]);

    /// Sets the exponent of empty sums.
    fn mark_nothing(&mut self, exponent: f32) {
        let [_, b, p] = &mut self.0;
        for (b, p) in b.iter().zip(p) {
            if *b == 0.0 {
                *p = exponent;
            }
        }
    }

    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, lane: usize) -> [Vector<S>; STATE_VECTORS] {
        self.0.each_ref().map(|part| load(simd, part, lane))
    }

    #[inline(always)]
    fn store<S: Simd>(&mut self, simd: S, values: [Vector<S>; STATE_VECTORS], lane: usize) {
        for (part, x) in self.0.iter_mut().zip(values) {
            store(simd, x, part, lane);
        }
    }
}

/// Returns the larger of x and y, then e^x and e^y relative to it.
#[inline(always)]
fn by_larger<S: Simd>(x: Vector<S>, y: Vector<S>) -> [Vector<S>; 3] {
    let largest = x.max(y);
    [largest, exp_below(x - largest), exp_below(y - largest)]
}

/// Returns the sums after a position with exponent `k` and value `v`.
#[inline(always)]
fn advanced<S: Simd>(
    [a, b, p]: [Vector<S>; STATE_VECTORS],
    [k, v]: [Vector<S>; 2],
    decay: Vector<S>,
) -> [Vector<S>; STATE_VECTORS] {
    let [largest, old, new] = by_larger(p + decay, k);
    [old.mul_add(a, new * v), old.mul_add(b, new), largest]
}
