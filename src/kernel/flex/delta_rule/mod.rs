//! The delta rule on the CPU. A task is a row with the heads of one key head; it walks chunks of positions, whose products k·k and
//! q·k its heads have in common, and carries their states. Work is cut by sizes alone: no number depends on the threads, nor on
//! the other rows.

mod backward;
mod forward;
mod head;
mod positions;
mod rooms;
mod solve;
mod units;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};

use super::buffer::{contiguous, dims, slice};
use super::chunks::{Chunk, Decays, chunks};
use super::strips::Row;
use super::threads;
use crate::kernel::delta_rule::extension::{
    DeltaRuleBackwardOps, DeltaRuleInputs, DeltaRuleOps, DeltaRuleSaved, DeltaRuleSettings,
};
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::ssd::Sizes;

/// Numbers of states of all positions up to which one thread makes everything.
const FEW: usize = 16 * 1024;

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

/// The inputs with their elements in order.
fn plain(inputs: DeltaRuleInputs<FlexTensor>) -> DeltaRuleInputs<FlexTensor> {
    DeltaRuleInputs {
        mixed: contiguous(inputs.mixed),
        beta: contiguous(inputs.beta),
        decay: contiguous(inputs.decay),
    }
}

/// Everything that both passes read.
struct Problem<'a> {
    sizes: Sizes,
    inputs: DeltaRuleInputs<&'a [f32]>,
    /// The chunks of each row.
    rows: Vec<Vec<Chunk>>,
    /// How many of them have a state before them.
    kept: usize,
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
        let mut kept = 0;
        let rows = (0..batch).map(|row| {
            let row = Row::new(&settings.sequences, row, seq);
            chunks(&row, carried, &mut kept)
        });
        Self {
            rows: rows.collect(),
            kept,
            sizes: Sizes {
                batch,
                seq,
                heads,
                d_head: (mixed - 2 * groups * n) / heads,
                groups,
                n,
            },
            inputs: DeltaRuleInputs {
                mixed: slice(&inputs.mixed),
                beta: slice(&inputs.beta),
                decay: slice(&inputs.decay),
            },
            settings,
        }
    }

    /// Calls `work` for each row and key head, on all threads when there is enough to do.
    fn each(&self, work: impl Fn(Task) + Sync) {
        let Sizes {
            batch,
            seq,
            heads,
            groups,
            n,
            ..
        } = self.sizes;
        let per = heads / groups;
        let task = |number: usize| {
            let (row, group) = (number / groups, number % groups);
            Task {
                row,
                group,
                heads: group * per..(group + 1) * per,
            }
        };
        let tasks = (0..batch * groups).map(task);
        if batch * seq * self.sizes.channels() * n <= FEW {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    /// How much of a chunk's positions a head writes, and how far its state decays.
    fn decays(&self, task: &Task, chunk: &Chunk, head: usize) -> Decays {
        Decays::new(chunk.positions.clone().map(|at| {
            let place = self.gate(task, at, head);
            let decay = f64::from(self.inputs.decay[place]);
            (self.inputs.beta[place], decay)
        }))
    }

    /// Where a head's number of a position lies in `[batch, seq, heads]`.
    fn gate(&self, task: &Task, at: usize, head: usize) -> usize {
        (task.row * self.sizes.seq + at) * self.sizes.heads + head
    }

    /// Where a position's query, or with `part` 1 its key, lies in `[batch, seq, mixed]`.
    fn direction(&self, task: &Task, at: usize, part: usize) -> Range<usize> {
        let sizes @ Sizes { seq, groups, n, .. } = self.sizes;
        let position = (task.row * seq + at) * sizes.mixed();
        let first = position + (part * groups + task.group) * n;
        first..first + n
    }

    /// Where a head's value at a position lies in `[batch, seq, mixed]`.
    fn value(&self, task: &Task, at: usize, head: usize) -> Range<usize> {
        let sizes = self.sizes;
        let position = (task.row * sizes.seq + at) * sizes.mixed();
        let first = position + 2 * sizes.groups * sizes.n + head * sizes.d_head;
        first..first + sizes.d_head
    }

    /// Where a head's numbers at a position lie in `[batch, seq, channels]`.
    fn place(&self, task: &Task, at: usize, head: usize) -> Range<usize> {
        let first = self.gate(task, at, head) * self.sizes.d_head;
        first..first + self.sizes.d_head
    }

    /// Where the states of a task lie among those that are kept.
    fn states(&self, task: &Task, kept: usize) -> Range<usize> {
        let Sizes { d_head, n, .. } = self.sizes;
        let first = (kept * self.sizes.channels() + task.heads.start * d_head) * n;
        first..first + self.wide(task) * n
    }

    /// Channels of the heads of a task.
    fn wide(&self, task: &Task) -> usize {
        task.heads.len() * self.sizes.d_head
    }
}

/// A row and the heads of a key head.
struct Task {
    row: usize,
    group: usize,
    heads: Range<usize>,
}
