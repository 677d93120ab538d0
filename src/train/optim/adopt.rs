//! ADOPT, a variant of Adam that divides a gradient by the second moment of earlier gradients, and averages afterwards
//! (Taniguchi et al. 2024, "ADOPT: Modified Adam Can Converge with Any β₂ with the Optimal Rate", algorithm 2), with
//! decoupled weight decay:
//!
//! ```text
//! in the first step v = g², and θ is unchanged; then with t = 1, 2, …
//! m ← β₁m + (1 − β₁)·clip(g/max(√v, ε), ±t^¼)
//! θ ← (1 − ηλ)θ − ηm,   v ← β₂v + (1 − β₂)g²
//! ```

use super::groups::{CommonKeys, Decay, GroupConfig};
use super::means::{MeansOptimizer, TwoMeans};
use crate::kernel::AdoptArgs;
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam that divides a gradient by the second moment of earlier gradients only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdoptConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the average of normalised gradients and of the second moment. Source: Taniguchi et al. 2024, algorithm 2.
    pub betas: [f64; 2],
    /// ε: the minimum divisor of a gradient. Source: Taniguchi et al. 2024, algorithm 2.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight decay λ. Source: Loshchilov and Hutter 2019, algorithm 2.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
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
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
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

impl MeansOptimizer<2> for Adopt {
    type Args = AdoptArgs;

    // In the first step the second moment is the gradient's square, and the parameter is unchanged.
    fn args(&self, lr: f64, time: u64) -> AdoptArgs {
        let [beta_1, beta_2] = self.betas;
        let before = time.saturating_sub(1);
        let (lr, beta_2) = if before == 0 {
            (0.0, 0.0)
        } else {
            (lr, beta_2)
        };
        AdoptArgs {
            lr,
            betas: [beta_1, beta_2],
            keep: 1.0 - lr * self.weight_decay,
            eps: self.eps,
            limit: (before as f64).powf(0.25),
        }
    }
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
        self.take_step(lr, tensor, grad, state, None)
    }

    fn to_device<const D: usize>(state: TwoMeans<D>, device: &Device) -> TwoMeans<D> {
        state.moved_to(device)
    }
}
