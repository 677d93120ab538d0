//! The state space by heads on the CPU. A task is a row with up to [`HEADS`] heads of a group. It scans chunks of
//! positions, whose scores c·b its heads share, and carries their states.

mod backward;
mod forward;
mod positions;
mod scratch;

use burn_flex::{Flex, FlexTensor};
use pulp::Simd;

use super::buffer::{contiguous, dims, slice};
use super::chunk_scan::{ScanLayout, Task};
use super::chunks::{Chunk, Decays};
use super::product::Matrix;
use super::simd::{Elementwise, Vector, map};
use super::strips::softplus;
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::ssd::Sizes;
use crate::kernel::ssd::extension::{SsdBackwardOps, SsdInputs, SsdOps, SsdSaved, SsdSettings};

/// Maximum number of heads of a task.
const HEADS: usize = 8;

impl SsdOps for Flex {
    fn ssd(
        mixed: FlexTensor,
        raw: FlexTensor,
        decay: FlexTensor,
        skip: FlexTensor,
        state: Maybe<Self>,
        settings: SsdSettings,
    ) -> FlexTensor {
        let inputs = SsdInputs {
            mixed,
            raw,
            decay,
            skip,
        };
        timed("state space", || {
            let (inputs, state) = (plain(inputs), state.into_option().map(contiguous));
            let problem = Problem::new(&inputs, &settings, state.is_some());
            forward::forward(&problem, state.as_ref().map(slice), false).0
        })
    }
}

impl SsdBackwardOps for Flex {
    fn ssd_saving(
        inputs: SsdInputs<FlexTensor>,
        state: Maybe<Self>,
        settings: &SsdSettings,
    ) -> SsdSaved<Self> {
        timed("state space", || {
            let (inputs, state) = (plain(inputs), state.into_option().map(contiguous));
            let carried = state.is_some();
            let problem = Problem::new(&inputs, settings, carried);
            let (out, states) = forward::forward(&problem, state.as_ref().map(slice), true);
            SsdSaved {
                inputs,
                out,
                states,
                carried,
            }
        })
    }

    fn ssd_backward(
        saved: SsdSaved<Self>,
        grad: FlexTensor,
        settings: &SsdSettings,
    ) -> SsdInputs<FlexTensor> {
        timed("state space, backward", || {
            let problem = Problem::new(&saved.inputs, settings, saved.carried);
            let [out, grad] = [saved.out, grad].map(contiguous);
            backward::backward(&problem, slice(&saved.states), [&out, &grad].map(slice))
        })
    }
}

/// Returns the inputs with contiguous elements.
fn plain(inputs: SsdInputs<FlexTensor>) -> SsdInputs<FlexTensor> {
    SsdInputs {
        mixed: contiguous(inputs.mixed),
        raw: contiguous(inputs.raw),
        decay: contiguous(inputs.decay),
        skip: contiguous(inputs.skip),
    }
}

/// The inputs of both passes.
struct Problem<'a> {
    layout: ScanLayout,
    inputs: SsdInputs<&'a [f32]>,
    /// Steps Δ, `[batch, seq, heads]`.
    steps: Vec<f32>,
    settings: &'a SsdSettings,
}

/// Computes steps: the softplus of the raw inputs, clamped to the limits in the field.
#[derive(Clone, Copy)]
struct ClampedSoftplus([f32; 2]);

impl Elementwise<1> for ClampedSoftplus {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [raw]: [Vector<S>; 1]) -> Vector<S> {
        let [least, most] = self.0.map(|limit| raw.splat_like(limit));
        softplus(raw).max(least).min(most).unless_nan(raw)
    }
}

impl<'a> Problem<'a> {
    fn new(inputs: &'a SsdInputs<FlexTensor>, settings: &'a SsdSettings, carried: bool) -> Self {
        let ([batch, seq, mixed], [heads]) = (dims(&inputs.mixed), dims(&inputs.decay));
        let SsdSettings { groups, n, .. } = *settings;
        let raw = slice(&inputs.raw);
        let mut steps = vec![0.0; raw.len()];
        map(ClampedSoftplus(limits(settings)), [raw], &mut steps);
        let sizes = Sizes::from_input([batch, seq, mixed], heads, [groups, n]);
        Self {
            layout: ScanLayout::new(sizes, &settings.sequences, carried, HEADS),
            inputs: SsdInputs {
                mixed: slice(&inputs.mixed),
                raw,
                decay: slice(&inputs.decay),
                skip: slice(&inputs.skip),
            },
            steps,
            settings,
        }
    }

    /// Returns the steps and decays of a chunk of a head.
    fn decays(&self, task: &Task, chunk: &Chunk, head: usize) -> Decays {
        let decay = f64::from(self.inputs.decay[head]);
        Decays::new(chunk.positions.clone().map(|at| {
            let step = self.steps[self.layout.gate(task, at, head)];
            (step, f64::from(step) * decay)
        }))
    }

    /// Returns b, or with `part` 1 c, of the positions of a chunk, `[len, n]`.
    fn directions(&self, task: &Task, chunk: &Chunk, part: usize) -> Matrix<'a> {
        let Sizes { groups, n, .. } = self.layout.sizes;
        let first = self.layout.position(task.row, chunk.positions.start)
            + self.layout.sizes.channels()
            + (part * groups + task.group) * n;
        Matrix {
            data: &self.inputs.mixed[first..],
            shape: [chunk.positions.len(), n],
            strides: [self.layout.sizes.mixed(), 1],
        }
    }

    /// Returns a head's x at a position, from `[batch, seq, mixed]`.
    fn x(&self, task: &Task, at: usize, head: usize) -> &'a [f32] {
        let d_head = self.layout.sizes.d_head;
        let first = self.layout.position(task.row, at) + head * d_head;
        &self.inputs.mixed[first..first + d_head]
    }
}

/// Returns the minimum and the maximum step.
fn limits(settings: &SsdSettings) -> [f32; 2] {
    settings.limits.unwrap_or([0.0, f32::INFINITY])
}
