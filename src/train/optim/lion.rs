//! Lion, evolved sign momentum (Chen et al. 2023, "Symbolic discovery of optimization algorithms"):
//!
//! ```text
//! θ ← (1 − ηλ)θ − η·sign(β₁m + (1 − β₁)g),   m ← β₂m + (1 − β₂)g
//! ```
//!
//! It needs a learning rate 3 to 10 times smaller than AdamW's, and a weight decay larger by the same factor.

use super::cautious::CautiousLion;
use super::elementwise::step_in_dtype;
use super::groups::{CommonKeys, Decay, GroupConfig};
use crate::kernel::{LionArgs, ScheduledStep};
use crate::one_table::is_usual;
use crate::train::verdict::Verdict;
use burn::optim::{LearningRate, LionState, Optimizer};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sign momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LionConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Weight of the momentum in the step, and decay rate of the momentum. Source: Chen et al. 2023, algorithm 2.
    pub betas: [f64; 2],
    /// Weight decay λ. Source: Chen et al. 2023, algorithm 2.
    pub weight_decay: f64,
    /// Whether a step updates only the values where it agrees with the gradient's sign, and these by more. Source:
    /// Liang et al. 2024, algorithm 1.
    #[serde(skip_serializing_if = "is_usual")]
    pub cautious: bool,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for LionConfig {
    fn default() -> Self {
        Self {
            lr: 1e-4,
            betas: [0.9, 0.99],
            weight_decay: 0.0,
            cautious: false,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl LionConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Lion {
        Lion {
            betas: self.betas,
            weight_decay,
        }
    }

    pub(super) fn cautious_step(&self, weight_decay: f64) -> CautiousLion {
        CautiousLion {
            betas: self.betas,
            weight_decay,
        }
    }
}

/// One parameter's update; its state is Burn's.
#[derive(Clone, Debug)]
pub struct Lion {
    betas: [f64; 2],
    weight_decay: f64,
}

impl Lion {
    fn args(&self, lr: f64) -> LionArgs {
        LionArgs {
            lr,
            betas: self.betas,
            keep: 1.0 - lr * self.weight_decay,
        }
    }

    /// Takes a step, which the host or the device has decided on.
    pub(super) fn take_step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<LionState<D>>,
        verdict: Option<&Verdict>,
    ) -> (Tensor<D>, Option<LionState<D>>) {
        let momentum = state.map(|state| state.momentum);
        let momentum = momentum.unwrap_or_else(|| grad.zeros_like());
        let own = self.clone();
        let step = ScheduledStep::new(lr, 1, move |lr, _| own.args(lr));
        let (tensor, [momentum]) = step_in_dtype(tensor, grad, [momentum], &step, verdict);
        (tensor, Some(LionState { momentum }))
    }
}

impl Optimizer for Lion {
    type State<const D: usize> = LionState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<LionState<D>>,
    ) -> (Tensor<D>, Option<LionState<D>>) {
        self.take_step(lr, tensor, grad, state, None)
    }

    fn to_device<const D: usize>(mut state: LionState<D>, device: &Device) -> LionState<D> {
        state.momentum = state.momentum.to_device(device);
        state
    }
}
