//! What an optimizer keeps of a parameter: the steps that it has seen, and running means of its shape in single precision.

use super::state;
use crate::kernel::{self, AdaptiveArgs, full};
use burn::optim::{RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

/// The names of the means in checkpoints: of gradients, of their squares, of gradients over many more steps.
const NAMES: [&str; 3] = ["first", "second", "slow"];

/// The first N of three means.
#[derive(Clone, Debug)]
pub struct Means<const D: usize, const N: usize> {
    /// Steps taken.
    pub time: usize,
    /// The means, in the order of their names.
    pub values: [Tensor<D>; N],
}

/// Means of gradients and of their squares.
pub type TwoMeans<const D: usize> = Means<D, 2>;

/// Means of gradients, of their squares, and of gradients over many more steps.
pub type ThreeMeans<const D: usize> = Means<D, 3>;

impl<const D: usize, const N: usize> Means<D, N> {
    /// Zeros of the shape and the number format of a gradient.
    pub(super) fn new(grad: &Tensor<D>) -> Self {
        Self {
            time: 0,
            values: std::array::from_fn(|_| grad.zeros_like()),
        }
    }

    pub(super) fn moved_to(self, device: &Device) -> Self {
        Self {
            time: self.time,
            values: self.values.map(|mean| mean.to_device(device)),
        }
    }
}

impl<const D: usize> TwoMeans<D> {
    /// A step along the mean of gradients and the gradient itself, with the numbers that `args` gives for its number, which is 1 at first.
    pub(super) fn step(
        state: Option<Self>,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        args: impl FnOnce(usize) -> AdaptiveArgs,
    ) -> (Tensor<D>, Option<Self>) {
        let dtype = tensor.dtype();
        let (tensor, grad) = (full(tensor), full(grad));
        let Self { time, values } = state.unwrap_or_else(|| Self::new(&grad));
        let time = time + 1;
        let (tensor, values) =
            kernel::adaptive_step(tensor, grad.clone(), grad, values, args(time));
        (state::like(tensor, dtype), Some(Self { time, values }))
    }
}

impl<const D: usize, const N: usize> RecordState for Means<D, N> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "time", self.time.into());
        for (name, mean) in NAMES.into_iter().zip(&self.values) {
            out.push_tensor(prefix, name, kernel::read(mean.clone()));
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let time = state::counter(prefix, "time", src)?;
        let names = NAMES.into_iter().take(N);
        let values = names.map(|name| state::tensor(prefix, name, src, device));
        let values: Vec<Tensor<D>> = values.collect::<Option<_>>()?;
        Some(Self {
            time,
            values: values.try_into().ok()?,
        })
    }
}
