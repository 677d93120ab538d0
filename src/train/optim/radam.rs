//! RAdam, Adam whose first steps are not adaptive until the second moment is reliable (Liu et al. 2020, "On the
//! Variance of the Adaptive Learning Rate and Beyond", algorithm 2), with decoupled weight decay, as PyTorch computes it:
//!
//! ```text
//! m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   θ ← (1 − ηλ)θ
//! ρ∞ = 2/(1 − β₂) − 1,   ρ = ρ∞ − 2tβ₂ᵗ/(1 − β₂ᵗ)
//! ρ > 5: θ ← θ − η·r·m/(1 − β₁ᵗ) · √(1 − β₂ᵗ)/(√v + ε),   r² = (ρ − 4)(ρ − 2)ρ∞ / ((ρ∞ − 4)(ρ∞ − 2)ρ)
//! else:  θ ← θ − η·m/(1 − β₁ᵗ)
//! ```
//!
//! The paper's bound is 4, from which the estimate of the variance exists; its authors' code and PyTorch use 5. The
//! first steps (five of them with β₂ = 0.999) are proportional to the gradient, as in gradient descent.

use super::groups::{CommonKeys, Decay, GroupConfig};
use super::means::{MeansOptimizer, TwoMeans};
use crate::kernel::AdaptiveArgs;
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Value of ρ above which steps are adaptive.
const TRACTABLE: f64 = 5.0;

/// Adam that begins as gradient descent with momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadamConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the first and the second moment; the second one must be above 2/3, below which no step is
    /// adaptive. Source: Liu et al. 2020, algorithm 2.
    pub betas: [f64; 2],
    /// Added to the square root of the second moment. Source: Kingma and Ba 2015, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight decay λ. Source: Loshchilov and Hutter 2019, algorithm 2.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for RadamConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl RadamConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Radam {
        Radam {
            betas: self.betas,
            eps: self.eps,
            weight_decay,
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        let second = self.betas[1];
        if (0.0..1.0).contains(&second) && rho_inf(second) <= TRACTABLE {
            faults.push(format!(
                "betas has {second} for the second moment, with which radam has no adaptive steps; it must be above 2/3"
            ));
        }
    }
}

/// Returns ρ∞ above.
fn rho_inf(beta_2: f64) -> f64 {
    2.0 / (1.0 - beta_2) - 1.0
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Radam {
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
}

impl MeansOptimizer<2> for Radam {
    type Args = AdaptiveArgs;

    fn args(&self, lr: f64, time: u64) -> AdaptiveArgs {
        let time = time as f64;
        let [power_1, power_2] = self.betas.map(|beta| beta.powf(time));
        let (first, second) = (1.0 - power_1, 1.0 - power_2);
        let longest = rho_inf(self.betas[1]);
        let length = longest - 2.0 * time * power_2 / second;
        let variance = |length: f64| (length - 4.0) * (length - 2.0) / length;
        let (factor, root, eps) = if length > TRACTABLE {
            let squared = variance(length) / variance(longest) * second;
            (squared.sqrt(), 1.0, self.eps)
        } else {
            // Not adaptive: the divisor √v·0 + 1 is 1.
            (1.0, 0.0, 1.0)
        };
        AdaptiveArgs {
            lr,
            betas: self.betas,
            keep: 1.0 - lr * self.weight_decay,
            first: factor / first,
            other: 0.0,
            root,
            eps,
        }
    }
}

impl Optimizer for Radam {
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
