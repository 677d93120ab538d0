//! AdEMAMix, Adam with a second, slow moving average of gradients (Pagliardini et al. 2024, "The AdEMAMix Optimizer:
//! Better, Faster, Older", algorithm 1), with decoupled weight decay:
//!
//! ```text
//! m₁ ← β₁m₁ + (1 − β₁)g,   m₂ ← β₃(t)m₂ + (1 − β₃(t))g,   v ← β₂v + (1 − β₂)g²
//! θ ← (1 − ηλ)θ − η·(m₁/(1 − β₁ᵗ) + α(t)·m₂) / (√v/√(1 − β₂ᵗ) + ε)
//! α(t) = α·min(t/T, 1),   1/ln β₃(t) = (1 − t/T)/ln β₁ + (t/T)/ln β₃ up to t = T, then β₃
//! ```
//!
//! So the half-life of the slow average grows linearly over T steps, from that of the fast one. The slow average begins
//! at 0, without bias correction.

use super::groups::{CommonKeys, Decay, GroupConfig};
use super::means::{MeansOptimizer, ThreeMeans};
use crate::kernel::{AdaptiveArgs, AdemamixArgs};
use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam with a fast and a slow moving average of gradients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdemamixConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the fast average of gradients, of the second moment, and of the slow average of gradients.
    /// Source: Pagliardini et al. 2024, algorithm 1.
    pub betas: [f64; 3],
    /// α: the weight of the slow average relative to the fast one. Source: Pagliardini et al. 2024, algorithm 1.
    #[schemars(range(min = 0, max = 1e37))]
    pub alpha: f64,
    /// T: steps over which the slow average's weight and decay rate rise; with 0 they are constant from the first
    /// step. The paper uses all steps of the run. Source: Pagliardini et al. 2024, section 3.
    pub slow_warmup: u64,
    /// ε: added to the square root of the second moment. Source: Pagliardini et al. 2024, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight decay λ. Source: Loshchilov and Hutter 2019, algorithm 2.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for AdemamixConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.999, 0.9999],
            alpha: 8.0,
            slow_warmup: 0,
            eps: 1e-8,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl AdemamixConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Ademamix {
        Ademamix {
            betas: self.betas,
            alpha: self.alpha,
            slow_warmup: self.slow_warmup,
            eps: self.eps,
            weight_decay,
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        faults.extend(super::negative_fault("alpha", self.alpha));
    }
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Ademamix {
    betas: [f64; 3],
    alpha: f64,
    slow_warmup: u64,
    eps: f64,
    weight_decay: f64,
}

impl Ademamix {
    /// Returns α(t) and β₃(t) above.
    fn scheduled(&self, time: u64) -> (f64, f64) {
        let [fast, _, slow] = self.betas;
        if time >= self.slow_warmup {
            return (self.alpha, slow);
        }
        let part = time as f64 / self.slow_warmup as f64;
        let length = (1.0 - part) / fast.ln() + part / slow.ln();
        (self.alpha * part, (1.0 / length).exp().min(slow))
    }
}

impl MeansOptimizer<3> for Ademamix {
    type Args = AdemamixArgs;

    fn args(&self, lr: f64, time: u64) -> AdemamixArgs {
        let [beta_1, beta_2, _] = self.betas;
        let corrected = |beta: f64| 1.0 - beta.powf(time as f64);
        let (alpha, slow) = self.scheduled(time);
        let fast = AdaptiveArgs {
            lr,
            betas: [beta_1, beta_2],
            keep: 1.0 - lr * self.weight_decay,
            first: 1.0 / corrected(beta_1),
            other: alpha,
            root: 1.0 / corrected(beta_2).sqrt(),
            eps: self.eps,
        };
        AdemamixArgs { fast, slow }
    }
}

impl Optimizer for Ademamix {
    type State<const D: usize> = ThreeMeans<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<ThreeMeans<D>>,
    ) -> (Tensor<D>, Option<ThreeMeans<D>>) {
        self.take_step(lr, tensor, grad, state, None)
    }

    fn to_device<const D: usize>(state: ThreeMeans<D>, device: &Device) -> ThreeMeans<D> {
        state.moved_to(device)
    }
}
