//! Sums of a step that are still on the device.

use super::output::StepOutput;
use crate::kernel;
use burn::tensor::Tensor;

/// Name of the loss among the sums; no metric has this name.
pub(super) const LOSS: &str = "";

/// A sum with the name of its metric.
#[derive(Clone, Debug)]
struct DeviceSum {
    name: &'static str,
    sum: Tensor<1>,
    /// The sum is this factor times the tensor.
    factor: f64,
}

/// Sums that have not been read yet. Their weights, which the host knows, are already in the output.
#[derive(Clone, Debug, Default)]
pub struct DeviceSums(Vec<DeviceSum>);

impl DeviceSums {
    /// Returns whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a part to the sum of `name`.
    pub(super) fn push(&mut self, name: &'static str, sum: Tensor<1>, factor: f64) {
        let sum = kernel::untracked(sum);
        self.0.push(DeviceSum { name, sum, factor });
    }

    /// Adds the sums of another step, on the device; sums with the same name and factor are merged.
    pub fn add(&mut self, other: &Self) {
        for part in &other.0 {
            let same = |own: &&mut DeviceSum| own.name == part.name && own.factor == part.factor;
            match self.0.iter_mut().find(same) {
                Some(own) => own.sum = own.sum.clone() + part.sum.clone(),
                None => self.0.push(part.clone()),
            }
        }
    }

    /// Returns the unread tensors; [`StepOutput::take`] expects their numbers in this order.
    pub fn tensors(&self) -> Vec<Tensor<1>> {
        self.0.iter().map(|part| part.sum.clone()).collect()
    }

    /// Replaces the tensors by others with the same sums, in the order of [`Self::tensors`].
    pub fn replace(&mut self, tensors: impl Iterator<Item = Tensor<1>>) {
        for (part, sum) in self.0.iter_mut().zip(tensors) {
            part.sum = sum;
        }
    }

    /// Returns the sum of the loss, `[1]`; `None` if it has been read.
    pub fn loss(&self) -> Option<Tensor<1>> {
        let parts = self.0.iter().filter(|part| part.name == LOSS);
        let parts = parts.map(|part| part.sum.clone() * part.factor);
        parts.reduce(|a, b| a + b)
    }
}

impl StepOutput {
    /// Takes in the numbers of [`DeviceSums::tensors`]; nothing is unread afterwards.
    pub fn take(&mut self, numbers: &[f32]) {
        for (part, number) in std::mem::take(&mut self.unread.0).into_iter().zip(numbers) {
            let sum = f64::from(*number) * part.factor;
            match part.name {
                LOSS => self.loss.sum += sum,
                name => self.metrics.entry(name).or_default().sum += sum,
            }
        }
    }

    /// Reads all unread numbers from the device, in one transfer.
    #[must_use]
    pub fn read(mut self) -> Self {
        let numbers = kernel::read_scalars(self.unread.tensors());
        self.take(&numbers);
        self
    }
}
