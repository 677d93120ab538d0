//! The state space by heads on the CPU. A task is a row with up to [`HEADS`] heads of a group; it walks chunks of positions, whose
//! scores c·b its heads have in common, and carries their states. A chunk ends where a sequence begins, so that nothing within it
//! is hidden but later positions. Work is cut by sizes alone: no number depends on the threads, nor on the other rows.

mod backward;
mod forward;
mod positions;
mod rooms;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};
use pulp::Simd;

use super::buffer::{contiguous, dims, slice};
use super::chunks::{Chunk, Decays, chunks};
use super::product::Matrix;
use super::simd::{Elementwise, Vector, map};
use super::strips::{Row, softplus};
use super::threads;
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::ssd::Sizes;
use crate::kernel::ssd::extension::{SsdBackwardOps, SsdInputs, SsdOps, SsdSaved, SsdSettings};

/// Heads of a task.
const HEADS: usize = 8;

/// Numbers of states of all positions up to which one thread makes everything.
const FEW: usize = 16 * 1024;

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

/// The inputs with their elements in order.
fn plain(inputs: SsdInputs<FlexTensor>) -> SsdInputs<FlexTensor> {
    SsdInputs {
        mixed: contiguous(inputs.mixed),
        raw: contiguous(inputs.raw),
        decay: contiguous(inputs.decay),
        skip: contiguous(inputs.skip),
    }
}

/// Everything that both passes read.
struct Problem<'a> {
    sizes: Sizes,
    inputs: SsdInputs<&'a [f32]>,
    /// The steps, `[batch, seq, heads]`.
    steps: Vec<f32>,
    /// The chunks of each row.
    rows: Vec<Vec<Chunk>>,
    /// How many of them have a state before them.
    kept: usize,
    settings: &'a SsdSettings,
}

/// The steps from what is before them.
#[derive(Clone, Copy)]
struct Held([f32; 2]);

impl Elementwise<1> for Held {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [raw]: [Vector<S>; 1]) -> Vector<S> {
        let [least, most] = self.0.map(|limit| raw.same(limit));
        softplus(raw).max(least).min(most).unless_nan(raw)
    }
}

impl<'a> Problem<'a> {
    fn new(inputs: &'a SsdInputs<FlexTensor>, settings: &'a SsdSettings, carried: bool) -> Self {
        let ([batch, seq, mixed], [heads]) = (dims(&inputs.mixed), dims(&inputs.decay));
        let SsdSettings { groups, n, .. } = *settings;
        let raw = slice(&inputs.raw);
        let mut steps = vec![0.0; raw.len()];
        map(Held(limits(settings)), [raw], &mut steps);
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

    /// Tasks of a group in a row.
    fn blocks(&self) -> usize {
        (self.sizes.heads / self.sizes.groups).div_ceil(HEADS)
    }

    /// Calls `work` for each row and its heads, on all threads when there is enough to do.
    fn each(&self, work: impl Fn(Task) + Sync) {
        let Sizes {
            batch,
            seq,
            heads,
            groups,
            n,
            ..
        } = self.sizes;
        let (blocks, per) = (self.blocks(), heads / groups);
        let task = |number: usize| {
            let (row, of_row) = (number / (groups * blocks), number % (groups * blocks));
            let (group, block) = (of_row / blocks, of_row % blocks);
            let first = group * per + block * HEADS;
            Task {
                row,
                group,
                block,
                heads: first..(first + HEADS).min((group + 1) * per),
            }
        };
        let tasks = (0..batch * groups * blocks).map(task);
        if batch * seq * self.sizes.channels() * n <= FEW {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    /// Where a position's numbers lie in `[batch, seq, mixed]`.
    fn position(&self, row: usize, at: usize) -> usize {
        (row * self.sizes.seq + at) * self.sizes.mixed()
    }

    /// The steps and decays of a chunk of a head.
    fn decays(&self, task: &Task, chunk: &Chunk, head: usize) -> Decays {
        let Sizes { seq, heads, .. } = self.sizes;
        let decay = f64::from(self.inputs.decay[head]);
        Decays::new(chunk.positions.clone().map(|at| {
            let step = self.steps[(task.row * seq + at) * heads + head];
            (step, f64::from(step) * decay)
        }))
    }

    /// b, or with `part` 1 c, of the positions of a chunk, `[len, n]`.
    fn directions(&self, task: &Task, chunk: &Chunk, part: usize) -> Matrix<'a> {
        let Sizes { groups, n, .. } = self.sizes;
        let first = self.position(task.row, chunk.positions.start)
            + self.sizes.channels()
            + (part * groups + task.group) * n;
        Matrix {
            data: &self.inputs.mixed[first..],
            shape: [chunk.positions.len(), n],
            strides: [self.sizes.mixed(), 1],
        }
    }

    /// Numbers of all channels at a position, those of a head: of x in `[batch, seq, mixed]`.
    fn x(&self, task: &Task, at: usize, head: usize) -> &'a [f32] {
        let d_head = self.sizes.d_head;
        let first = self.position(task.row, at) + head * d_head;
        &self.inputs.mixed[first..first + d_head]
    }

    /// Where a head's numbers at a position lie in `[batch, seq, channels]`.
    fn place(&self, task: &Task, at: usize, head: usize) -> usize {
        let position = task.row * self.sizes.seq + at;
        (position * self.sizes.heads + head) * self.sizes.d_head
    }

    /// Where the states of a task lie among those that are kept.
    fn states(&self, task: &Task, kept: usize) -> Range<usize> {
        let Sizes { d_head, n, .. } = self.sizes;
        let first = (kept * self.sizes.channels() + task.heads.start * d_head) * n;
        first..first + task.heads.len() * d_head * n
    }
}

/// The least and the largest step.
fn limits(settings: &SsdSettings) -> [f32; 2] {
    settings.limits.unwrap_or([0.0, f32::INFINITY])
}

/// A row and some heads of a group.
struct Task {
    row: usize,
    group: usize,
    /// Its number in the group.
    block: usize,
    heads: Range<usize>,
}
