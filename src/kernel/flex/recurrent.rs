//! Division of a recurrence's positions into tasks, in either direction.
//!
//! Each position is a round of tasks; a task is some rows and some units with all their gates, so that gates are
//! computed while their products are in a core's cache. The products and sums of a unit do not depend on how tasks
//! are divided.

use std::cell::RefCell;
use std::ops::Range;

use burn_flex::{Flex, FlexTensor};

use super::buffer::{SharedBuffer, dims};
use super::{recurrent_backward, recurrent_forward, threads};
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::recurrent::extension::{
    RecurrenceBackwardOps, RecurrenceGradients, RecurrenceOps, RecurrenceSaved,
};
use crate::kernel::recurrent::{RecurrenceSettings, Step};

/// Number of units of a task: a whole number of panels on every machine.
const UNITS: usize = 64;

/// Minimum number of tasks of a position, if there are enough rows.
const TASKS: usize = 8;

/// Number of rows of a register block.
const HEIGHT: usize = 6;

/// Number of multiply-adds of a position from which a second thread pays off.
const PARALLEL_FROM: usize = 64 * 64 * 64;

/// Number of positions up to which packing the weights does not pay off.
const UNPACKED_POSITIONS: usize = 2;

/// Sizes and settings of a recurrence.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Number of rows.
    pub batch: usize,
    /// Number of positions.
    pub seq: usize,
    /// Number of units.
    pub d: usize,
    /// The cell, and where sequences begin and end.
    pub settings: &'a RecurrenceSettings,
}

impl<'a> Shape<'a> {
    /// Derives the sizes from inputs `[batch, seq, gates·d]`.
    pub fn new(inputs: &FlexTensor, settings: &'a RecurrenceSettings) -> Self {
        let [batch, seq, width] = dims(inputs);
        Self {
            batch,
            seq,
            d: width / settings.cell.gates(),
            settings,
        }
    }

    /// Returns the width of all gates.
    pub fn width(&self) -> usize {
        self.settings.cell.gates() * self.d
    }

    /// Returns the step at a position of a row; [`Step::Next`] past the last position.
    pub fn step(&self, row: usize, at: usize) -> Step {
        match at < self.seq {
            true => self.settings.sequences.step(row, self.seq, at),
            false => Step::Next,
        }
    }

    /// Returns whether products read the weights unpacked.
    pub fn reads_unpacked(&self) -> bool {
        self.seq <= UNPACKED_POSITIONS
    }

    /// Calls `work` for the tasks of a position, on all threads if they are large enough.
    pub fn for_each_task(&self, work: impl Fn(Task) + Sync) {
        let units = self.d.div_ceil(UNITS).max(1);
        let parts = TASKS.div_ceil(units);
        let rows = self.batch.div_ceil(parts).next_multiple_of(HEIGHT).max(1);
        let task = |number: usize| {
            let (row, unit) = (number / units * rows, number % units * UNITS);
            Task {
                rows: row..(row + rows).min(self.batch),
                units: unit..(unit + UNITS).min(self.d),
            }
        };
        let tasks = (0..units * self.batch.div_ceil(rows)).map(task);
        if self.batch * self.width() * self.d < PARALLEL_FROM {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }
}

/// Some rows and some units of a position.
#[derive(Clone)]
pub struct Task {
    /// Rows of the batch.
    pub rows: Range<usize>,
    /// Units of the state.
    pub units: Range<usize>,
}

impl Task {
    /// Returns the task's units of a row that starts at `start` in a buffer.
    ///
    /// # Safety
    /// As for [`SharedBuffer::row`]: the row must be one of this task's, or no task may write it.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    pub unsafe fn of<'a>(&self, buffer: &'a SharedBuffer, start: usize) -> &'a mut [f32] {
        // SAFETY: by the caller's promise.
        unsafe { buffer.row(start + self.units.start, self.units.len()) }
    }
}

thread_local! {
    /// Scratch memory for a task's products.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with this thread's scratch memory of `len` elements.
pub fn with_scratch(len: usize, work: impl FnOnce(&mut [f32])) {
    let mut room = SCRATCH.take();
    if room.len() < len {
        room.resize(len, 0.0);
    }
    work(&mut room[..len]);
    SCRATCH.set(room);
}

impl RecurrenceOps for Flex {
    fn recurrence(
        inputs: FlexTensor,
        weight: FlexTensor,
        h: FlexTensor,
        extra: Maybe<Self>,
        settings: RecurrenceSettings,
    ) -> FlexTensor {
        Self::recurrence_saving(inputs, weight, h, extra, &settings).out
    }
}

impl RecurrenceBackwardOps for Flex {
    fn recurrence_saving(
        inputs: FlexTensor,
        weight: FlexTensor,
        h: FlexTensor,
        extra: Maybe<Self>,
        settings: &RecurrenceSettings,
    ) -> RecurrenceSaved<Self> {
        timed("recurrence", || {
            recurrent_forward::forward(inputs, weight, h, extra, settings)
        })
    }

    fn recurrence_backward(
        saved: RecurrenceSaved<Self>,
        grad: FlexTensor,
        settings: &RecurrenceSettings,
    ) -> RecurrenceGradients<Self> {
        timed("recurrence, backward", || {
            recurrent_backward::backward(saved, grad, settings)
        })
    }
}
