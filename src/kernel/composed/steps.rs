//! The steps of a batch at one position: where sequences begin and end.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::kernel::recurrent::{Sequences, Step};

/// The steps of all rows at one position.
pub struct Steps(Vec<Step>);

/// A state before and after a step.
pub struct StepChange<const D: usize> {
    /// State before the step.
    pub before: Tensor<D>,
    /// State after the step.
    pub after: Tensor<D>,
}

impl Steps {
    /// Returns the steps at one of `[batch, seq]` positions.
    pub fn at(sequences: &Sequences, [batch, seq]: [usize; 2], at: usize) -> Self {
        Self((0..batch).map(|row| sequences.step(row, seq, at)).collect())
    }

    /// Zeroes a state in rows where a sequence begins.
    pub fn reset_beginning<const D: usize>(&self, state: Tensor<D>) -> Tensor<D> {
        self.zero_rows(state, Step::Begin)
    }

    /// Returns the state after the step; rows that have ended keep the one before it.
    pub fn hold_ended<const D: usize>(&self, change: StepChange<D>) -> Tensor<D> {
        match self.0.contains(&Step::Hold) {
            true => {
                let device = change.after.device();
                let ended: Tensor<D, Bool> = self.rows(Step::Hold, &device);
                let ended = ended.expand(change.after.dims());
                change.after.mask_where(ended, change.before)
            }
            false => change.after,
        }
    }

    /// Zeroes an output in rows that have ended.
    pub fn zero_ended<const D: usize>(&self, y: Tensor<D>) -> Tensor<D> {
        self.zero_rows(y, Step::Hold)
    }

    fn zero_rows<const D: usize>(&self, x: Tensor<D>, step: Step) -> Tensor<D> {
        match self.0.contains(&step) {
            true => {
                let rows: Tensor<D, Bool> = self.rows(step, &x.device());
                let rows = rows.expand(x.dims());
                x.mask_fill(rows, 0.0)
            }
            false => x,
        }
    }

    /// Returns true for rows with this step, `[batch, 1, …]`.
    fn rows<const D: usize>(&self, step: Step, device: &Device) -> Tensor<D, Bool> {
        let rows: Vec<bool> = self.0.iter().map(|own| *own == step).collect();
        let mut shape = [1; D];
        shape[0] = rows.len();
        Tensor::from_data(TensorData::new(rows, shape), device)
    }
}
