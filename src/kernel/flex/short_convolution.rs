//! Short causal convolutions on the CPU. A task is a strip of [`STRIP_WIDTH`] channels of a row, processed forward from its
//! first position and backward from its last. Work is divided by sizes only.

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::buffer::{SharedBuffer, contiguous, dims, slice, tensor, zeros};
use super::math::sigmoid;
use super::simd::{Vector, run};
use super::strips::{STRIP_WIDTH, Strip, load, store, sum_vectors, transpose};
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::short_convolution::available_positions;
use crate::kernel::short_convolution::extension::{
    ConvolutionSaved, ShortConvolutionBackwardOps, ShortConvolutionOps, ShortConvolutionSettings,
};

impl ShortConvolutionOps for Flex {
    fn short_convolution(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        before: Maybe<Self>,
        settings: ShortConvolutionSettings,
    ) -> FlexTensor {
        let saved = plain(ConvolutionSaved {
            x,
            weight,
            bias,
            before,
        });
        timed("short convolution", || {
            let problem = Problem::new(&saved, &settings);
            let mut out = zeros(slice(&saved.x).len());
            let to = SharedBuffer::new(&mut out);
            Strip::for_each_strip(problem.dims(), |strip| {
                run(Forward {
                    problem: &problem,
                    strip: &strip,
                    to: &to,
                });
            });
            tensor(out, dims::<3>(&saved.x))
        })
    }
}

impl ShortConvolutionBackwardOps for Flex {
    fn short_convolution_backward(
        saved: ConvolutionSaved<Self>,
        grad: FlexTensor,
        settings: &ShortConvolutionSettings,
    ) -> [FlexTensor; 3] {
        let (saved, grad) = (plain(saved), contiguous(grad));
        timed("short convolution, backward", || {
            let problem = Problem::new(&saved, settings);
            let Problem {
                batch,
                channels,
                taps,
                ..
            } = problem;
            let mut of_x = zeros(slice(&saved.x).len());
            // Gradients of the taps, followed by that of the bias.
            let mut of_taps = zeros(batch * (taps + 1) * channels);
            let to = [
                SharedBuffer::new(&mut of_x),
                SharedBuffer::new(&mut of_taps),
            ];
            Strip::for_each_strip(problem.dims(), |strip| {
                run(Backward {
                    problem: &problem,
                    strip: &strip,
                    grad: slice(&grad),
                    to: &to,
                });
            });
            let sums = sum_vectors(&of_taps, (taps + 1) * channels);
            let (of_weight, of_bias) = sums.split_at(taps * channels);
            [
                tensor(of_x, dims::<3>(&saved.x)),
                tensor(transpose(of_weight, [taps, channels]), [channels, taps]),
                tensor(of_bias.to_vec(), [channels]),
            ]
        })
    }
}

/// Returns the tensors with contiguous elements.
fn plain(saved: ConvolutionSaved<Flex>) -> ConvolutionSaved<Flex> {
    let before = saved.before.into_option().map(contiguous);
    ConvolutionSaved {
        x: contiguous(saved.x),
        weight: contiguous(saved.weight),
        bias: contiguous(saved.bias),
        before: before.map_or(Maybe::None, Maybe::Some),
    }
}

/// The inputs of both passes.
struct Problem<'a> {
    batch: usize,
    seq: usize,
    channels: usize,
    taps: usize,
    x: &'a [f32],
    /// Weight, transposed to `[taps, channels]`.
    weight: Vec<f32>,
    bias: &'a [f32],
    before: Option<&'a [f32]>,
    settings: &'a ShortConvolutionSettings,
}

impl<'a> Problem<'a> {
    fn new(saved: &'a ConvolutionSaved<Flex>, settings: &'a ShortConvolutionSettings) -> Self {
        let ([batch, seq, channels], [_, taps]) = (dims(&saved.x), dims(&saved.weight));
        Self {
            batch,
            seq,
            channels,
            taps,
            x: slice(&saved.x),
            weight: transpose(slice(&saved.weight), [channels, taps]),
            bias: slice(&saved.bias),
            before: match &saved.before {
                Maybe::Some(before) => Some(slice(before)),
                Maybe::None => None,
            },
            settings,
        }
    }

    /// Returns the numbers of batch rows, positions and channels.
    fn dims(&self) -> [usize; 3] {
        [self.batch, self.seq, self.channels]
    }

    /// Returns how far back each position of a strip's row reads.
    fn reaches(&self, strip: &Strip) -> Vec<usize> {
        let sequences = &self.settings.sequences;
        available_positions(sequences, [strip.row, self.seq], self.taps - 1).collect()
    }

    /// Returns the range of the strip's elements at a position.
    #[inline(always)]
    fn place(&self, strip: &Strip, at: usize) -> Range<usize> {
        strip.place(at, [self.seq, self.channels])
    }

    /// Returns the strip's elements `back` positions before `at`; `None` if they are zeros.
    #[inline(always)]
    fn earlier(&self, strip: &Strip, at: usize, back: usize) -> Option<&'a [f32]> {
        if let Some(at) = at.checked_sub(back) {
            return Some(&self.x[self.place(strip, at)]);
        }
        let number = strip.row * (self.taps - 1) + self.taps - 1 + at - back;
        let first = number * self.channels + strip.channels.start;
        self.before
            .map(|before| &before[first..first + strip.channels.len()])
    }

    /// Returns a tap of the strip's channels, counted backward from that of the position itself.
    #[inline(always)]
    fn tap(&self, strip: &Strip, back: usize) -> &[f32] {
        let row = &self.weight[(self.taps - 1 - back) * self.channels..];
        &row[strip.channels.clone()]
    }

    /// Returns the convolution's sum before SiLU.
    #[inline(always)]
    fn sum<S: Simd>(&self, simd: S, strip: &Strip, place: [usize; 3]) -> Vector<S> {
        let [at, reach, lane] = place;
        let mut sum = load(simd, &self.bias[strip.channels.clone()], lane);
        for back in 0..=reach {
            if let Some(x) = self.earlier(strip, at, back) {
                sum = load(simd, x, lane).mul_add(load(simd, self.tap(strip, back), lane), sum);
            }
        }
        sum
    }
}

struct Forward<'a> {
    problem: &'a Problem<'a>,
    strip: &'a Strip,
    to: &'a SharedBuffer,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, strip, to } = self;
        for (at, reach) in problem.reaches(strip).into_iter().enumerate() {
            let place = problem.place(strip, at);
            // SAFETY: only this task writes these channels of this position.
            let y = unsafe { to.row(place.start, place.len()) };
            for lane in (0..place.len()).step_by(S::F32_LANES) {
                let sum = problem.sum(simd, strip, [at, reach, lane]);
                let sum = match problem.settings.silu {
                    true => sum * sigmoid(sum),
                    false => sum,
                };
                store(simd, sum, y, lane);
            }
        }
    }
}

struct Backward<'a> {
    problem: &'a Problem<'a>,
    strip: &'a Strip,
    grad: &'a [f32],
    /// Gradients of the input, and of taps and bias.
    to: &'a [SharedBuffer; 2],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            problem,
            strip,
            grad,
            to: [to_x, to_taps],
        } = self;
        let taps = problem.taps;
        let reaches = problem.reaches(strip);
        let lanes = (0..strip.channels.len()).step_by(S::F32_LANES);
        // Ring buffer: the gradients of the sums at a position and those after it.
        let mut of_sums = vec![[0.0; STRIP_WIDTH]; taps];
        let mut of_taps = vec![[0.0; STRIP_WIDTH]; taps + 1];
        for (at, reach) in reaches.iter().copied().enumerate().rev() {
            let place = problem.place(strip, at);
            for lane in lanes.clone() {
                let mut of_sum = load(simd, &grad[place.clone()], lane);
                if problem.settings.silu {
                    let sum = problem.sum(simd, strip, [at, reach, lane]);
                    let opened = sigmoid(sum);
                    let slope =
                        opened * (sum * (sum.splat_like(1.0) - opened) + sum.splat_like(1.0));
                    of_sum = of_sum * slope;
                }
                store(simd, of_sum, &mut of_sums[at % taps], lane);
                let to = load(simd, &of_taps[taps], lane) + of_sum;
                store(simd, to, &mut of_taps[taps], lane);
                for back in 0..=reach {
                    let Some(x) = problem.earlier(strip, at, back) else {
                        continue;
                    };
                    let tap = &mut of_taps[taps - 1 - back];
                    let to = load(simd, tap, lane);
                    store(simd, of_sum.mul_add(load(simd, x, lane), to), tap, lane);
                }
                let mut of_x = of_sum.splat_like(0.0);
                for back in 0..taps.min(problem.seq - at) {
                    if reaches[at + back] < back {
                        break;
                    }
                    let of_sum = load(simd, &of_sums[(at + back) % taps], lane);
                    of_x = of_sum.mul_add(load(simd, problem.tap(strip, back), lane), of_x);
                }
                // SAFETY: only this task writes these channels of this position.
                let x = unsafe { to_x.row(place.start, place.len()) };
                store(simd, of_x, x, lane);
            }
        }
        for (number, sums) in of_taps.iter().enumerate() {
            let first = (strip.row * (taps + 1) + number) * problem.channels;
            let len = strip.channels.len();
            // SAFETY: as above, for the sums of this row.
            let to = unsafe { to_taps.row(first + strip.channels.start, len) };
            to.copy_from_slice(&sums[..len]);
        }
    }
}
