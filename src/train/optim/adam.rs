//! Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), as PyTorch computes them:
//!
//! ```text
//! Adam: g ← g + λθ        AdamW: θ ← θ − ηλθ
//! m ← β₁m + (1 − β₁)g     v ← β₂v + (1 − β₂)g²
//! θ ← θ − η/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + ε)
//! ```
//!
//! Our own step, not Burn's: coefficients and bias corrections are doubles (1 − 0.999 in single
//! precision is off by 10⁻⁵), and moments of half-precision weights are kept in single precision.

use super::cautious::CautiousAdamw;
use super::groups::{Common, Decay, GroupConfig};
use super::held::Decided;
use super::state::{self, like};
use crate::kernel::full;
use crate::kernel::replay::{self, Counter};
use crate::kernel::{self, AdamwArgs};
use crate::one_table::is_usual;
use crate::train::verdict::Verdict;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{DType, Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam with decoupled weight decay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdamwConfig {
    /// The learning rate that the schedule multiplies.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decays of the first and the second moment. Source: Kingma and Ba 2015, algorithm 1.
    pub betas: [f64; 2],
    /// Added to the root of the second moment. Source: Kingma and Ba 2015, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// λ above. Source: Loshchilov and Hutter 2019, algorithm 2.
    pub weight_decay: f64,
    /// Whether a step moves the values alone at which it agrees with the gradient, and these further. Source: Liang et al. 2024,
    /// algorithm 1.
    #[serde(skip_serializing_if = "is_usual")]
    pub cautious: bool,
    /// Which parameters are decayed.
    pub decay: Decay,
    /// Parameters with another learning rate or decay.
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
    pub(super) fn common(&self) -> Common<'_> {
        Common::of(self.weight_decay, self.decay, &self.groups)
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
    /// The learning rate that the schedule multiplies.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decays of the first and the second moment. Source: Kingma and Ba 2015, algorithm 1.
    pub betas: [f64; 2],
    /// Added to the root of the second moment. Source: Kingma and Ba 2015, algorithm 1.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// λ above.
    pub weight_decay: f64,
    /// Which parameters are decayed.
    pub decay: Decay,
    /// Parameters with another learning rate or decay.
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
    pub(super) fn common(&self) -> Common<'_> {
        Common::of(self.weight_decay, self.decay, &self.groups)
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
    /// The state and the arguments of a step.
    fn begun<const D: usize>(
        &self,
        lr: LearningRate,
        grad: &Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (AdamState<D>, AdamwArgs) {
        let state = state.unwrap_or_else(|| AdamState {
            time: Counter::default(),
            first: grad.zeros_like(),
            second: grad.zeros_like(),
        });
        let args = AdamwArgs {
            lr,
            beta_1: self.betas[0],
            beta_2: self.betas[1],
            eps: self.eps,
            weight_decay: if self.decoupled {
                self.weight_decay
            } else {
                0.0
            },
            time: state.time.get() + 1,
        };
        (state, args)
    }

    /// The state after a step.
    fn done<const D: usize>(time: Counter, [first, second]: [Tensor<D>; 2]) -> AdamState<D> {
        time.count();
        AdamState {
            time,
            first,
            second,
        }
    }

    /// The penalty that passes through the moments, if there is one.
    fn penalty<const D: usize>(&self, tensor: &Tensor<D>) -> Option<Tensor<D>> {
        let has_one = !self.decoupled && self.weight_decay != 0.0;
        has_one.then(|| tensor.clone() * self.weight_decay)
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
        let dtype = tensor.dtype();
        let (tensor, mut grad) = (full(tensor), full(grad));
        if let Some(penalty) = self.penalty(&tensor) {
            grad = grad + penalty;
        }
        let (state, args) = self.begun(lr, &grad, state);
        let (tensor, first, second) =
            kernel::adamw_step(tensor, grad, state.first, state.second, args);
        let state = Self::done(state.time, [first, second]);
        (like(tensor, dtype), Some(state))
    }

    fn to_device<const D: usize>(mut state: AdamState<D>, device: &Device) -> AdamState<D> {
        state.first = state.first.to_device(device);
        state.second = state.second.to_device(device);
        state
    }
}

impl Decided for Adam {
    fn step_if<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamState<D>>,
        verdict: &Verdict,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let dtype = tensor.dtype();
        let (tensor, grad) = (full(tensor), full(grad));
        let (state, args) = self.begun(lr, &grad, state);
        let AdamState {
            time,
            first,
            second,
        } = state;
        replay::counted(&time);
        let moments = [first, second];
        let decision = verdict.decision();
        let (tensor, moments) = match self.penalty(&tensor) {
            // What is cast back is read before the others are there.
            None if dtype == DType::F32 => {
                kernel::adamw_step_among(tensor, grad, moments, args, decision)
            }
            None => kernel::adamw_step_if(tensor, grad, moments, args, decision),
            // The decision's factor is of the gradient alone.
            Some(penalty) => {
                let grad = verdict.scaled(grad) + penalty;
                kernel::adamw_step_if(tensor, grad, moments, args, &verdict.unscaled())
            }
        };
        let state = Self::done(time, moments);
        (like(tensor, dtype), Some(state))
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
