//! How the positions of a recurrence are cut into tasks, in either direction.
//!
//! A position is a round of tasks, each some rows and some units with all their gates, so that gates are made while
//! their products are in a core's cache. The products and sums of a unit are the same however tasks are cut.

use std::cell::RefCell;
use std::ops::Range;

use burn_flex::{Flex, FlexTensor};

use super::buffer::{Shared, dims};
use super::{recurrent_backward, recurrent_forward, threads};
use crate::kernel::extension::Maybe;
use crate::kernel::profile::timed;
use crate::kernel::recurrent::extension::{
    RecurrenceBackwardOps, RecurrenceGradients, RecurrenceOps, RecurrenceSaved,
};
use crate::kernel::recurrent::{RecurrenceSettings, Step};

/// Units of a task: a whole number of panels on every machine.
const UNITS: usize = 64;

/// Tasks of a position at least, when there are rows enough.
const TASKS: usize = 8;

/// Rows of a block of registers.
const HEIGHT: usize = 6;

/// Multiply-adds of a position from which a second thread pays.
const THREADS_FROM: usize = 64 * 64 * 64;

/// Positions up to which copying the weights does not pay.
const FEW: usize = 2;

/// The sizes of a recurrence and what it is told.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Rows.
    pub batch: usize,
    /// Positions.
    pub seq: usize,
    /// Units.
    pub d: usize,
    /// Which cell, and where sequences begin and end.
    pub settings: &'a RecurrenceSettings,
}

impl<'a> Shape<'a> {
    /// Of inputs `[batch, seq, gates·d]`.
    pub fn new(inputs: &FlexTensor, settings: &'a RecurrenceSettings) -> Self {
        let [batch, seq, width] = dims(inputs);
        Self {
            batch,
            seq,
            d: width / settings.cell.gates(),
            settings,
        }
    }

    /// Width of all gates.
    pub fn width(&self) -> usize {
        self.settings.cell.gates() * self.d
    }

    /// The step at a position of a row; beyond the last one, nothing special.
    pub fn step(&self, row: usize, at: usize) -> Step {
        match at < self.seq {
            true => self.settings.sequences.step(row, self.seq, at),
            false => Step::Next,
        }
    }

    /// Whether products read the weights where they lie.
    pub fn few(&self) -> bool {
        self.seq <= FEW
    }

    /// Calls `work` for the tasks of a position, on all threads when they are large enough.
    pub fn each(&self, work: impl Fn(Task) + Sync) {
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
        if self.batch * self.width() * self.d < THREADS_FROM {
            tasks.for_each(work);
        } else {
            threads::for_each(tasks, work);
        }
    }
}

/// Some rows and some units.
#[derive(Clone)]
pub struct Task {
    /// Rows of the batch.
    pub rows: Range<usize>,
    /// Units of the state.
    pub units: Range<usize>,
}

impl Task {
    /// Its units of a row of a buffer that begins at `start`.
    ///
    /// # Safety
    /// As of [`Shared::row`]: the row is one of this task's, or no task writes it.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    pub unsafe fn of<'a>(&self, buffer: &'a Shared, start: usize) -> &'a mut [f32] {
        // SAFETY: as the caller says.
        unsafe { buffer.row(start + self.units.start, self.units.len()) }
    }
}

thread_local! {
    /// A task's products.
    static PRODUCTS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with this thread's room for `len` numbers.
pub fn with_room(len: usize, work: impl FnOnce(&mut [f32])) {
    let mut room = PRODUCTS.take();
    if room.len() < len {
        room.resize(len, 0.0);
    }
    work(&mut room[..len]);
    PRODUCTS.set(room);
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
