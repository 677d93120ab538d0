//! Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), as PyTorch computes them:
//!
//! ```text
//! Adam: g ← g + λθ        AdamW: θ ← θ − ηλθ
//! m ← β₁m + (1 − β₁)g     v ← β₂v + (1 − β₂)g²
//! θ ← θ − η/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + ε)
//! ```
//!
//! This is a separate implementation, not Burn's: coefficients and bias corrections are doubles (1 − 0.999 in single
//! precision is off by 10⁻⁵), and moments of half-precision weights are kept in single precision.

use super::cautious::CautiousAdamw;
use super::elementwise::step_in_f32;
use super::groups::{CommonKeys, Decay, GroupConfig};
use super::state::{self, like};
use crate::kernel::replay::{self, Counter};
use crate::kernel::{self, AdamwArgs, ScheduledStep, Updated, to_f32};
use crate::one_table::is_usual;
use crate::train::verdict::Verdict;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam with decoupled weight decay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdamwConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the first and the second moment. Source: Kingma and Ba 2015, algorithm 1.
    pub betas: [f64; 2],
    /// ε: added to the square root of the second moment. Source: Kingma and Ba 2015, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight decay λ. Source: Loshchilov and Hutter 2019, algorithm 2.
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

impl Default for AdamwConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.01,
            cautious: false,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl AdamwConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Adam {
        Adam {
            betas: self.betas,
            eps: self.eps,
            weight_decay,
            decoupled: true,
        }
    }

    pub(super) fn cautious_step(&self, weight_decay: f64) -> CautiousAdamw {
        CautiousAdamw {
            betas: self.betas,
            eps: self.eps,
            weight_decay,
        }
    }
}

/// Adam; its weight decay is an L2 penalty that passes through the moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdamConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the first and the second moment. Source: Kingma and Ba 2015, algorithm 1.
    pub betas: [f64; 2],
    /// ε: added to the square root of the second moment. Source: Kingma and Ba 2015, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight λ of the L2 penalty.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for AdamConfig {
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

impl AdamConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Adam {
        Adam {
            betas: self.betas,
            eps: self.eps,
            weight_decay,
            decoupled: false,
        }
    }
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Adam {
    pub(super) betas: [f64; 2],
    pub(super) eps: f64,
    pub(super) weight_decay: f64,
    pub(super) decoupled: bool,
}

/// Moments of one parameter.
#[derive(Clone, Debug)]
pub struct AdamState<const D: usize> {
    /// Steps taken.
    pub time: Counter,
    /// Moving average of gradients.
    pub first: Tensor<D>,
    /// Moving average of squared gradients.
    pub second: Tensor<D>,
}

impl Adam {
    /// Returns the arguments of step `time`, which is 1 at first, and of the steps after it.
    fn scheduled_args(&self, lr: LearningRate, time: u64) -> ScheduledStep<AdamwArgs> {
        let [beta_1, beta_2] = self.betas;
        let (eps, decays) = (self.eps, self.decoupled);
        let weight_decay = if decays { self.weight_decay } else { 0.0 };
        ScheduledStep::new(lr, time, move |lr, time| AdamwArgs {
            lr,
            beta_1,
            beta_2,
            eps,
            weight_decay,
            time,
        })
    }

    /// Takes a step, which the host or the device has decided on.
    pub(super) fn take_step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamState<D>>,
        verdict: Option<&Verdict>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let AdamState {
            time,
            first,
            second,
        } = state.unwrap_or_else(|| AdamState::new(&to_f32(grad.clone())));
        let (step, moments) = (self.scheduled_args(lr, time.get() + 1), [first, second]);
        if verdict.is_some() {
            replay::register_counter(&time);
        }
        let penalised = !self.decoupled && self.weight_decay != 0.0;
        let (tensor, [first, second]) = match penalised {
            true => self.step_with_l2(tensor, grad, moments, &step, verdict),
            false => step_in_f32(tensor, grad, moments, &step, verdict),
        };
        time.count();
        let state = AdamState {
            time,
            first,
            second,
        };
        (tensor, Some(state))
    }

    /// Takes a step with an L2 penalty that passes through the moments.
    fn step_with_l2<const D: usize>(
        &self,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        moments: [Tensor<D>; 2],
        step: &ScheduledStep<AdamwArgs>,
        verdict: Option<&Verdict>,
    ) -> Updated<D, 2> {
        let dtype = tensor.dtype();
        let (tensor, grad) = (to_f32(tensor), to_f32(grad));
        let penalty = tensor.clone() * self.weight_decay;
        let (tensor, moments) = match verdict {
            None => kernel::elementwise_step(tensor, grad + penalty, moments, step.args()),
            // The decision's factor scales only the gradient.
            Some(verdict) => {
                let (grad, decision) = (verdict.scaled(grad) + penalty, verdict.unscaled());
                kernel::elementwise_step_if(tensor, grad, moments, step, &decision)
            }
        };
        (like(tensor, dtype), moments)
    }
}

impl<const D: usize> AdamState<D> {
    /// Returns zeros with the shape and number format of a gradient.
    fn new(grad: &Tensor<D>) -> Self {
        Self {
            time: Counter::default(),
            first: grad.zeros_like(),
            second: grad.zeros_like(),
        }
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        self.take_step(lr, tensor, grad, state, None)
    }

    fn to_device<const D: usize>(mut state: AdamState<D>, device: &Device) -> AdamState<D> {
        state.first = state.first.to_device(device);
        state.second = state.second.to_device(device);
        state
    }
}

impl<const D: usize> RecordState for AdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "time", self.time.get().into());
        out.push_tensor(prefix, "first", kernel::read(self.first.clone()));
        out.push_tensor(prefix, "second", kernel::read(self.second.clone()));
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            time: Counter::new(state::counter(prefix, "time", src)? as u64),
            first: state::tensor(prefix, "first", src, device)?,
            second: state::tensor(prefix, "second", src, device)?,
        })
    }
}
