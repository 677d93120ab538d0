//! The selective scan on the CPU. A strip is [`STRIP`] channels, whose states stay in a core's L1 cache while its
//! positions are processed. A task is a row with up to [`STRIPS`] strips, which sum their gradients of b and c
//! together. Work is divided by sizes only: no result depends on the number of threads, nor on the other rows.

mod backward;
mod forward;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};

use super::buffer::{contiguous, dims, slice};
use super::strips::{Row, transpose};
use super::threads;
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::selective_scan::extension::{
    ScanInputs, ScanSaved, ScanSettings, SelectiveScanBackwardOps, SelectiveScanOps,
};

/// Number of channels of a strip: the lanes of the widest registers.
const STRIP: usize = 16;

/// Number of strips of a task.
const STRIPS: usize = 8;

/// Number of positions between two states that are kept.
const CHUNK: usize = 32;

/// Number of state elements of all positions up to which a single thread does all the work.
const SINGLE_THREAD_LEN: usize = 16 * 1024;

impl SelectiveScanOps for Flex {
    fn selective_scan(
        u: FlexTensor,
        raw: FlexTensor,
        gate: FlexTensor,
        decay: FlexTensor,
        directions: FlexTensor,
        skip: FlexTensor,
        state: Maybe<Self>,
        settings: ScanSettings,
    ) -> FlexTensor {
        let inputs = ScanInputs {
            u,
            raw,
            gate,
            decay,
            directions,
            skip,
        };
        timed("selective scan", || {
            let inputs = plain(inputs);
            forward::forward(&Problem::new(&inputs, &settings), state, false).0
        })
    }
}

impl SelectiveScanBackwardOps for Flex {
    fn selective_scan_saving(
        inputs: ScanInputs<FlexTensor>,
        state: Maybe<Self>,
        settings: &ScanSettings,
    ) -> (FlexTensor, ScanSaved<Self>) {
        timed("selective scan", || {
            let inputs = plain(inputs);
            let (out, states) = forward::forward(&Problem::new(&inputs, settings), state, true);
            (out, ScanSaved { inputs, states })
        })
    }

    fn selective_scan_backward(
        saved: ScanSaved<Self>,
        grad: FlexTensor,
        settings: &ScanSettings,
    ) -> ScanInputs<FlexTensor> {
        timed("selective scan, backward", || {
            let problem = Problem::new(&saved.inputs, settings);
            backward::backward(&problem, &saved.states, grad)
        })
    }
}

/// Returns the inputs with contiguous elements.
fn plain(inputs: ScanInputs<FlexTensor>) -> ScanInputs<FlexTensor> {
    ScanInputs {
        u: contiguous(inputs.u),
        raw: contiguous(inputs.raw),
        gate: contiguous(inputs.gate),
        decay: contiguous(inputs.decay),
        directions: contiguous(inputs.directions),
        skip: contiguous(inputs.skip),
    }
}

/// The inputs of both passes.
struct Problem<'a> {
    batch: usize,
    seq: usize,
    channels: usize,
    /// Number of elements of a channel's state.
    n: usize,
    inputs: ScanInputs<&'a [f32]>,
    /// Decay, transposed to `[n, channels]`.
    decay: Vec<f32>,
    settings: &'a ScanSettings,
}

impl<'a> Problem<'a> {
    fn new(inputs: &'a ScanInputs<FlexTensor>, settings: &'a ScanSettings) -> Self {
        let [batch, seq, channels] = dims(&inputs.u);
        let [_, n] = dims::<2>(&inputs.decay);
        Self {
            batch,
            seq,
            channels,
            n,
            decay: transpose(slice(&inputs.decay), [channels, n]),
            inputs: ScanInputs {
                u: slice(&inputs.u),
                raw: slice(&inputs.raw),
                gate: slice(&inputs.gate),
                decay: slice(&inputs.decay),
                directions: slice(&inputs.directions),
                skip: slice(&inputs.skip),
            },
            settings,
        }
    }

    /// Returns the number of chunks of a row.
    fn chunks(&self) -> usize {
        self.seq.div_ceil(CHUNK)
    }

    /// Returns the number of groups of strips: tasks of a row.
    fn groups(&self) -> usize {
        self.channels.div_ceil(STRIP * STRIPS)
    }

    /// Returns the strips of a group.
    fn strips(&self, group: usize) -> Vec<Strip> {
        let all = group * STRIPS..((group + 1) * STRIPS).min(self.channels.div_ceil(STRIP));
        all.map(|strip| {
            let channels = strip * STRIP..((strip + 1) * STRIP).min(self.channels);
            Strip {
                decay: self.padded(&self.decay, &channels),
                skip: self.inputs.skip[channels.clone()].to_vec(),
                channels,
            }
        })
        .collect()
    }

    /// Returns the strip's channels of a matrix `[n, channels]`, as rows of [`STRIP`] elements padded with zeros.
    fn padded(&self, matrix: &[f32], channels: &Range<usize>) -> Vec<f32> {
        let mut padded = vec![0.0; self.n * STRIP];
        let rows = matrix.chunks_exact(self.channels.max(1));
        for (to, from) in padded.chunks_exact_mut(STRIP).zip(rows) {
            to[..channels.len()].copy_from_slice(&from[channels.clone()]);
        }
        padded
    }

    /// Calls `work` for each row and group, on all threads if there is enough to do.
    fn for_each_task(&self, work: impl Fn(Task) + Sync) {
        let groups = self.groups();
        let task = |number: usize| Task {
            row: number / groups,
            group: number % groups,
        };
        let tasks = (0..self.batch * groups).map(task);
        if self.batch * self.seq * self.channels * self.n <= SINGLE_THREAD_LEN {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }

    fn row(&self, task: Task) -> Row<'_> {
        Row::new(&self.settings.sequences, task.row, self.seq)
    }

    /// Returns the range of the strip's elements at a position in `[batch, seq, channels]`.
    #[inline(always)]
    fn place(&self, row: usize, at: usize, strip: &Strip) -> Range<usize> {
        let first = (row * self.seq + at) * self.channels + strip.channels.start;
        first..first + strip.channels.len()
    }

    /// Returns b and c of a position.
    #[inline(always)]
    fn directions(&self, row: usize, at: usize) -> (&'a [f32], &'a [f32]) {
        let both = &self.inputs.directions[(row * self.seq + at) * 2 * self.n..][..2 * self.n];
        both.split_at(self.n)
    }

    /// Returns the offset of the strip's states before a chunk in `[batch, chunks, n, channels]`.
    fn kept(&self, row: usize, chunk: usize, strip: &Strip) -> usize {
        (row * self.chunks() + chunk) * self.n * self.channels + strip.channels.start
    }
}

/// A row and a group of its strips.
#[derive(Clone, Copy)]
struct Task {
    row: usize,
    group: usize,
}

/// A range of channels, with their parameters.
struct Strip {
    channels: Range<usize>,
    /// Decay, `[n, STRIP]`.
    decay: Vec<f32>,
    skip: Vec<f32>,
}
