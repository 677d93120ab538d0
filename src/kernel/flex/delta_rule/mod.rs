//! The delta rule on the CPU. A task is a row with the heads of one key head. It scans chunks of positions, whose
//! products k·k and q·k its heads share, and carries their states.

mod backward;
mod forward;
mod head;
mod positions;
mod scratch;
mod solve;
mod units;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};

use super::buffer::{contiguous, dims, slice};
use super::chunk_scan::{ScanLayout, Task};
use super::chunks::{Chunk, Decays};
use crate::kernel::delta_rule::extension::{
    DeltaRuleBackwardOps, DeltaRuleInputs, DeltaRuleOps, DeltaRuleSaved, DeltaRuleSettings,
};
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::ssd::Sizes;

impl DeltaRuleOps for Flex {
    fn delta_rule(
        mixed: FlexTensor,
        beta: FlexTensor,
        decay: FlexTensor,
        state: Maybe<Self>,
        settings: DeltaRuleSettings,
    ) -> FlexTensor {
        timed("delta rule", || {
            let inputs = plain(DeltaRuleInputs { mixed, beta, decay });
            let state = state.into_option().map(contiguous);
            let problem = Problem::new(&inputs, &settings, state.is_some());
            forward::forward(&problem, state.as_ref().map(slice), false).0
        })
    }
}

impl DeltaRuleBackwardOps for Flex {
    fn delta_rule_saving(
        inputs: DeltaRuleInputs<FlexTensor>,
        state: Maybe<Self>,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleSaved<Self> {
        timed("delta rule", || {
            let (inputs, state) = (plain(inputs), state.into_option().map(contiguous));
            let carried = state.is_some();
            let problem = Problem::new(&inputs, settings, carried);
            let (out, states) = forward::forward(&problem, state.as_ref().map(slice), true);
            DeltaRuleSaved {
                inputs,
                out,
                states,
                carried,
                corrections: None,
            }
        })
    }

    fn delta_rule_backward(
        saved: DeltaRuleSaved<Self>,
        grad: FlexTensor,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleInputs<FlexTensor> {
        timed("delta rule, backward", || {
            let problem = Problem::new(&saved.inputs, settings, saved.carried);
            let [out, grad] = [saved.out, grad].map(contiguous);
            backward::backward(&problem, slice(&saved.states), [&out, &grad].map(slice))
        })
    }
}

/// Returns the inputs with contiguous elements.
fn plain(inputs: DeltaRuleInputs<FlexTensor>) -> DeltaRuleInputs<FlexTensor> {
    DeltaRuleInputs {
        mixed: contiguous(inputs.mixed),
        beta: contiguous(inputs.beta),
        decay: contiguous(inputs.decay),
    }
}

/// The inputs of both passes.
struct Problem<'a> {
    layout: ScanLayout,
    inputs: DeltaRuleInputs<&'a [f32]>,
    settings: &'a DeltaRuleSettings,
}

impl<'a> Problem<'a> {
    fn new(
        inputs: &'a DeltaRuleInputs<FlexTensor>,
        settings: &'a DeltaRuleSettings,
        carried: bool,
    ) -> Self {
        let ([batch, seq, mixed], [_, _, heads]) = (dims(&inputs.mixed), dims(&inputs.beta));
        let DeltaRuleSettings { groups, n, .. } = *settings;
        let sizes = Sizes::from_input([batch, seq, mixed], heads, [groups, n]);
        Self {
            layout: ScanLayout::new(sizes, &settings.sequences, carried, usize::MAX),
            inputs: DeltaRuleInputs {
                mixed: slice(&inputs.mixed),
                beta: slice(&inputs.beta),
                decay: slice(&inputs.decay),
            },
            settings,
        }
    }

    /// Returns the steps of a chunk's positions for a head, and how far its state decays.
    fn decays(&self, task: &Task, chunk: &Chunk, head: usize) -> Decays {
        Decays::new(chunk.positions.clone().map(|at| {
            let place = self.layout.gate(task, at, head);
            let decay = f64::from(self.inputs.decay[place]);
            (self.inputs.beta[place], decay)
        }))
    }

    /// Returns the range of a position's query, or with `part` 1 of its key, in `[batch, seq, mixed]`.
    fn direction(&self, task: &Task, at: usize, part: usize) -> Range<usize> {
        let Sizes { groups, n, .. } = self.layout.sizes;
        let first = self.layout.position(task.row, at) + (part * groups + task.group) * n;
        first..first + n
    }

    /// Returns the range of a head's value at a position in `[batch, seq, mixed]`.
    fn value(&self, task: &Task, at: usize, head: usize) -> Range<usize> {
        let sizes = self.layout.sizes;
        let first =
            self.layout.position(task.row, at) + 2 * sizes.groups * sizes.n + head * sizes.d_head;
        first..first + sizes.d_head
    }
}
