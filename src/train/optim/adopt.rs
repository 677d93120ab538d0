//! ADOPT, Adam that divides a gradient by the second moment of those before it, and takes the mean afterwards (Taniguchi et al.
//! 2024, "ADOPT: Modified Adam Can Converge with Any β₂ with the Optimal Rate", algorithm 2), with decoupled weight decay:
//!
//! ```text
//! v = g² at first, and nothing moves; then with t = 1, 2, …
//! m ← β₁m + (1 − β₁)·clip(g/max(√v, ε), ±t^¼)
//! θ ← (1 − ηλ)θ − ηm,   v ← β₂v + (1 − β₂)g²
//! ```

use super::groups::{Common, Decay, GroupConfig};
use super::means::TwoMeans;
use super::state::like;
use crate::kernel::{self, NormedArgs, full};
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam that divides by the past alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdoptConfig {
    /// The learning rate that the schedule multiplies.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decays of the mean of divided gradients and of the second moment. Source: Taniguchi et al. 2024, algorithm 2.
    pub betas: [f64; 2],
    /// ε above: the least divisor of a gradient. Source: Taniguchi et al. 2024, algorithm 2.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// λ above. Source: Loshchilov and Hutter 2019, algorithm 2.
    pub weight_decay: f64,
    /// Which parameters are decayed.
    pub decay: Decay,
    /// Parameters with another learning rate or decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for AdoptConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.9999],
            eps: 1e-6,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl AdoptConfig {
    pub(super) fn common(&self) -> Common<'_> {
        Common::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Adopt {
        Adopt {
            betas: self.betas,
            eps: self.eps,
            weight_decay,
        }
    }
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Adopt {
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
}

impl Optimizer for Adopt {
    type State<const D: usize> = TwoMeans<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<TwoMeans<D>>,
    ) -> (Tensor<D>, Option<TwoMeans<D>>) {
        let dtype = tensor.dtype();
        let grad = full(grad);
        let TwoMeans { time, values } = state.unwrap_or_else(|| TwoMeans::new(&grad));
        if time == 0 {
            let [first, _] = values;
            let values = [first, grad.square()];
            return (tensor, Some(TwoMeans { time: 1, values }));
        }
        let args = NormedArgs {
            lr,
            betas: self.betas,
            keep: 1.0 - lr * self.weight_decay,
            eps: self.eps,
            limit: (time as f64).powf(0.25),
        };
        let (tensor, values) = kernel::normed_step(full(tensor), grad, values, args);
        let time = time + 1;
        (like(tensor, dtype), Some(TwoMeans { time, values }))
    }

    fn to_device<const D: usize>(state: TwoMeans<D>, device: &Device) -> TwoMeans<D> {
        state.moved_to(device)
    }
}
