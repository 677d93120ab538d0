//! Optimizer state of a parameter: the number of its steps, and running means of its shape in single precision.

use super::elementwise::step_in_f32;
use super::state;
use crate::kernel::replay::{self, Counter};
use crate::kernel::{self, ElementwiseStep, ScheduledStep, to_f32};
use crate::train::verdict::Verdict;
use burn::optim::{RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

/// Names of the means in checkpoints: of gradients, of their squares, of gradients over many more steps.
const NAMES: [&str; 3] = ["first", "second", "slow"];

/// The first `N` of three running means.
#[derive(Clone, Debug)]
pub struct Means<const D: usize, const N: usize> {
    /// Steps taken.
    pub time: Counter,
    /// The means, in the order of `NAMES`.
    pub values: [Tensor<D>; N],
}

/// Means of gradients and of their squares.
pub type TwoMeans<const D: usize> = Means<D, 2>;

/// Means of gradients, of their squares, and of gradients over many more steps.
pub type ThreeMeans<const D: usize> = Means<D, 3>;

impl<const D: usize, const N: usize> Means<D, N> {
    /// Returns zeros with the shape and number format of a gradient.
    pub(super) fn new(grad: &Tensor<D>) -> Self {
        Self {
            time: Counter::default(),
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

/// An optimizer of running means whose step is determined by coefficients that depend on the learning rate and the
/// number of the step.
pub(super) trait MeansOptimizer<const N: usize>: Clone + 'static {
    /// The coefficients of a step.
    type Args: ElementwiseStep<N>;

    /// Returns the coefficients of step `time`, which is 1 at first.
    fn args(&self, lr: f64, time: u64) -> Self::Args;

    /// Takes a step, which the host or the device has decided on.
    fn take_step<const D: usize>(
        &self,
        lr: f64,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Means<D, N>>,
        verdict: Option<&Verdict>,
    ) -> (Tensor<D>, Option<Means<D, N>>) {
        let state = state.unwrap_or_else(|| Means::new(&to_f32(grad.clone())));
        let Means { time, values } = state;
        let own = self.clone();
        let step = ScheduledStep::new(lr, time.get() + 1, move |lr, time| own.args(lr, time));
        if verdict.is_some() {
            replay::register_counter(&time);
        }
        let (tensor, values) = step_in_f32(tensor, grad, values, &step, verdict);
        time.count();
        (tensor, Some(Means { time, values }))
    }
}

impl<const D: usize, const N: usize> RecordState for Means<D, N> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "time", self.time.get().into());
        for (name, mean) in NAMES.into_iter().zip(&self.values) {
            out.push_tensor(prefix, name, kernel::read(mean.clone()));
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let time = Counter::new(state::counter(prefix, "time", src)? as u64);
        let names = NAMES.into_iter().take(N);
        let values = names.map(|name| state::tensor(prefix, name, src, device));
        let values: Vec<Tensor<D>> = values.collect::<Option<_>>()?;
        Some(Self {
            time,
            values: values.try_into().ok()?,
        })
    }
}
