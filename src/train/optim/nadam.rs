//! NAdam, Adam with Nesterov momentum (Dozat 2016, "Incorporating Nesterov Momentum into Adam"), with decoupled weight
//! decay, as PyTorch computes it:
//!
//! ```text
//! m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   θ ← (1 − ηλ)θ
//! μₜ = β₁(1 − 0.96^(tψ)/2),   Πₜ = μ₁·…·μₜ
//! θ ← θ − η·(μₜ₊₁/(1 − Πₜ₊₁)·m + (1 − μₜ)/(1 − Πₜ)·g) / (√v/√(1 − β₂ᵗ) + ε)
//! ```

use super::groups::{CommonKeys, Decay, GroupConfig};
use super::means::{MeansOptimizer, TwoMeans};
use crate::kernel::AdaptiveArgs;
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam with Nesterov's momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NadamConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the first and the second moment. Source: Dozat 2016.
    pub betas: [f64; 2],
    /// Added to the square root of the second moment. Source: Dozat 2016.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// ψ: how fast the weight of the Nesterov term rises from half of the first decay rate to all of it; 0 keeps it at
    /// half. Source: Dozat 2016.
    #[schemars(range(min = 0, max = 1e37))]
    pub momentum_decay: f64,
    /// Weight decay λ. Source: Loshchilov and Hutter 2019, algorithm 2.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for NadamConfig {
    fn default() -> Self {
        Self {
            lr: 2e-3,
            betas: [0.9, 0.999],
            eps: 1e-8,
            momentum_decay: 4e-3,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl NadamConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Nadam {
        Nadam {
            betas: self.betas,
            eps: self.eps,
            momentum_decay: self.momentum_decay,
            weight_decay,
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        faults.extend(super::negative_fault("momentum_decay", self.momentum_decay));
    }
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Nadam {
    betas: [f64; 2],
    eps: f64,
    momentum_decay: f64,
    weight_decay: f64,
}

impl Nadam {
    /// Returns μₜ above.
    fn ahead(&self, time: u64) -> f64 {
        let power = time as f64 * self.momentum_decay;
        self.betas[0] * (1.0 - 0.5 * 0.96_f64.powf(power))
    }

    /// Returns Πₜ above. It is computed from the time only, so that a state has one counter; once negligible next to 1
    /// in double precision it is 0.
    fn product(&self, time: u64) -> f64 {
        let mut product = 1.0;
        for step in 1..=time {
            product *= self.ahead(step);
            if product < f64::EPSILON / 4.0 {
                return 0.0;
            }
        }
        product
    }
}

impl MeansOptimizer<2> for Nadam {
    type Args = AdaptiveArgs;

    fn args(&self, lr: f64, time: u64) -> AdaptiveArgs {
        let (now, next) = (self.ahead(time), self.ahead(time + 1));
        let product = self.product(time);
        AdaptiveArgs {
            lr,
            betas: self.betas,
            keep: 1.0 - lr * self.weight_decay,
            first: next / (1.0 - product * next),
            other: (1.0 - now) / (1.0 - product),
            root: 1.0 / (1.0 - self.betas[1].powf(time as f64)).sqrt(),
            eps: self.eps,
        }
    }
}

impl Optimizer for Nadam {
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
