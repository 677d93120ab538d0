//! Cautious updates (Liang et al. 2024, "Cautious Optimizers: Improving Training with One Line of Code", algorithm 1):
//! an update u changes only the values where it agrees in sign with the gradient g, and these by more:
//!
//! ```text
//! u ← u·[ug > 0]·n/(|{ug > 0}| + 1)
//! ```
//!
//! for a parameter of n values. The sign of AdamW's u is that of its mean of gradients, so the mean is masked; Lion's u
//! is itself a sign. Moments and weight decay are not masked.

use super::means::TwoMeans;
use super::state::like;
use crate::kernel::{self, AdaptiveArgs, to_f32};
use burn::optim::{LearningRate, LionState, Optimizer};
use burn::tensor::{Device, Tensor};

/// AdamW's update of one parameter, with the cautious mask.
#[derive(Clone, Debug)]
pub struct CautiousAdamw {
    pub(super) betas: [f64; 2],
    pub(super) eps: f64,
    pub(super) weight_decay: f64,
}

impl Optimizer for CautiousAdamw {
    type State<const D: usize> = TwoMeans<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<TwoMeans<D>>,
    ) -> (Tensor<D>, Option<TwoMeans<D>>) {
        let dtype = tensor.dtype();
        let (tensor, grad) = (to_f32(tensor), to_f32(grad));
        let TwoMeans { time, values } = state.unwrap_or_else(|| TwoMeans::new(&grad));
        time.count();
        let steps = time.get() as f64;
        let [beta_1, beta_2] = self.betas;
        let corrected = |beta: f64| 1.0 - beta.powf(steps);
        let args = AdaptiveArgs {
            lr,
            betas: self.betas,
            keep: 1.0 - lr * self.weight_decay,
            // The masked mean replaces the mean.
            first: 0.0,
            other: 1.0 / corrected(beta_1),
            root: 1.0 / corrected(beta_2).sqrt(),
            eps: self.eps,
        };
        let mean = kernel::mean_step(values[0].clone(), grad.clone(), beta_1);
        let along = masked(mean, grad.clone());
        let (tensor, values) = kernel::adaptive_step(tensor, grad, along, values, args);
        (like(tensor, dtype), Some(TwoMeans { time, values }))
    }

    fn to_device<const D: usize>(state: TwoMeans<D>, device: &Device) -> TwoMeans<D> {
        state.moved_to(device)
    }
}

/// Lion's update of one parameter, with the cautious mask.
#[derive(Clone, Debug)]
pub struct CautiousLion {
    pub(super) betas: [f64; 2],
    pub(super) weight_decay: f64,
}

impl Optimizer for CautiousLion {
    type State<const D: usize> = LionState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<LionState<D>>,
    ) -> (Tensor<D>, Option<LionState<D>>) {
        let dtype = tensor.dtype();
        let (tensor, grad) = (to_f32(tensor), to_f32(grad));
        let momentum = state.map_or_else(|| grad.zeros_like(), |state| to_f32(state.momentum));
        let [beta_1, beta_2] = self.betas;
        let update = kernel::mean_step(momentum.clone(), grad.clone(), beta_1).sign();
        let momentum = kernel::mean_step(momentum, grad.clone(), beta_2);
        let tensor = tensor * (1.0 - lr * self.weight_decay) - masked(update, grad) * lr;
        (like(tensor, dtype), Some(LionState { momentum }))
    }

    fn to_device<const D: usize>(mut state: LionState<D>, device: &Device) -> LionState<D> {
        state.momentum = state.momentum.to_device(device);
        state
    }
}

/// Masks the update where it disagrees with the gradient, and scales the rest up by the share of values removed.
fn masked<const D: usize>(update: Tensor<D>, grad: Tensor<D>) -> Tensor<D> {
    // Signs are multiplied, since a product of two small numbers may underflow to 0.
    let agrees = (update.clone().sign() * grad.sign()).greater_elem(0.0);
    let agrees = update.zeros_like().mask_fill(agrees, 1.0);
    let values = update.shape().num_elements() as f64;
    let longer = (agrees.clone().sum() + 1.0).recip() * values;
    update * agrees * longer.reshape([1; D])
}
