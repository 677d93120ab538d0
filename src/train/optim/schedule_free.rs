//! Schedule-free AdamW (Defazio et al. 2024, "The Road Less Scheduled", algorithm 1): an average of the weights
//! replaces a falling learning rate.
//!
//! ```text
//! v ← β₂v + (1 − β₂)g²,   u = g/(√v/√(1 − β₂ᵗ) + ε) + λy
//! z ← z − ηₜu,   x ← (1 − cₜ)x + cₜz,   y = (1 − β₁)z + β₁x,   cₜ = ηₜ²/(η₁² + … + ηₜ²)
//! ```
//!
//! The model's weights are y, at which gradients are taken; the optimizer's state is z and v. Evaluations use x, which
//! is a moving average of y, since z follows from x and y: x ← dₜx + (1 − dₜ)y, where
//! dₜ = (1 − β₁)(1 − cₜ)/(1 − β₁(1 − cₜ)). So x is kept like any other average of the weights ([`crate::train::ema`]),
//! and the step needs only y and z:
//!
//! ```text
//! y ← (1 − cₜ)y + cₜz − ηₜ(1 − β₁(1 − cₜ))u
//! ```
//!
//! ηₜ rises over the warmup of a constant schedule and then stays constant; so cₜ depends only on t.

use super::groups::{CommonKeys, Decay, GroupConfig};
use super::state::{self, like};
use crate::kernel::{self, to_f32};
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// AdamW without a schedule; evaluations use its average of the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleFreeConfig {
    /// Learning rate after the warmup of the schedule.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// β₁, the share of the average in the weights that gradients are taken at, and the decay rate of the second
    /// moment. Source: Defazio et al. 2024, algorithm 1.
    pub betas: [f64; 2],
    /// Added to the square root of the second moment. Source: Defazio et al. 2024, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight decay λ. Source: Defazio et al. 2024, algorithm 1.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for ScheduleFreeConfig {
    fn default() -> Self {
        Self {
            lr: 2.5e-3,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl ScheduleFreeConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn averaging(&self, warmup_steps: u64) -> Averaging {
        Averaging {
            beta: self.betas[0],
            warmup_steps,
        }
    }

    pub(super) fn step(&self, weight_decay: f64, warmup_steps: u64) -> ScheduleFree {
        ScheduleFree {
            averaging: self.averaging(warmup_steps),
            beta_2: self.betas[1],
            eps: self.eps,
            weight_decay,
        }
    }
}

/// The weight of each step in the average x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaging {
    beta: f64,
    warmup_steps: u64,
}

impl Averaging {
    /// Returns cₜ of step `time`, which is 1 at first: ηₜ is proportional to min(t, w + 1) with w steps of warmup.
    fn newest_weight(self, time: u64) -> f64 {
        let (t, full) = (time as f64, self.warmup_steps as f64 + 1.0);
        if t <= full {
            return 6.0 * t / ((t + 1.0) * (2.0 * t + 1.0));
        }
        let rising = (full + 1.0) * (2.0 * full + 1.0) / (6.0 * full);
        1.0 / (rising + t - full)
    }

    /// Returns the share of an update of z by `u` that reaches the model's weights y: 1 − β₁(1 − cₜ).
    fn update_share(self, newest: f64) -> f64 {
        1.0 - self.beta * (1.0 - newest)
    }

    /// Returns dₜ: the decay of x as a moving average of the model's weights.
    pub fn decay(self, time: u64) -> f64 {
        let newest = self.newest_weight(time);
        (1.0 - self.beta) * (1.0 - newest) / self.update_share(newest)
    }
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct ScheduleFree {
    averaging: Averaging,
    beta_2: f64,
    eps: f64,
    weight_decay: f64,
}

/// State kept for one parameter.
#[derive(Clone, Debug)]
pub struct ScheduleFreeState<const D: usize> {
    /// Steps taken.
    pub time: usize,
    /// z above.
    pub base: Tensor<D>,
    /// Moving average of squared gradients.
    pub second: Tensor<D>,
}

impl Optimizer for ScheduleFree {
    type State<const D: usize> = ScheduleFreeState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<ScheduleFreeState<D>>,
    ) -> (Tensor<D>, Option<ScheduleFreeState<D>>) {
        let dtype = tensor.dtype();
        let (tensor, grad) = (to_f32(tensor), to_f32(grad));
        let (before, base, second) = match state {
            // A state without any step does not hold weights yet.
            Some(state) if state.time > 0 => (state.time, state.base, state.second),
            Some(_) | None => (0, tensor.clone(), grad.zeros_like()),
        };
        let time = before + 1;
        let newest = self.averaging.newest_weight(time as u64);
        let second = kernel::mean_step(second, grad.clone().square(), self.beta_2);
        let root = 1.0 / (1.0 - self.beta_2.powf(time as f64)).sqrt();
        let mut along = grad / (second.clone().sqrt() * root + self.eps);
        if self.weight_decay != 0.0 {
            along = along + tensor.clone() * self.weight_decay;
        }
        let pulled = tensor * (1.0 - newest) + base.clone() * newest;
        let tensor = pulled - along.clone() * (lr * self.averaging.update_share(newest));
        let base = base - along * lr;
        let state = ScheduleFreeState { time, base, second };
        (like(tensor, dtype), Some(state))
    }

    fn to_device<const D: usize>(
        mut state: ScheduleFreeState<D>,
        device: &Device,
    ) -> ScheduleFreeState<D> {
        state.base = state.base.to_device(device);
        state.second = state.second.to_device(device);
        state
    }
}

impl<const D: usize> RecordState for ScheduleFreeState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "time", self.time.into());
        out.push_tensor(prefix, "base", kernel::read(self.base.clone()));
        out.push_tensor(prefix, "second", kernel::read(self.second.clone()));
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            time: state::counter(prefix, "time", src)?,
            base: state::tensor(prefix, "base", src, device)?,
            second: state::tensor(prefix, "second", src, device)?,
        })
    }
}
