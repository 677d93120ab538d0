//! Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch computes it:
//!
//! ```text
//! g ← g + λθ,   b ← μb + (1 − τ)g (b = g at first),   θ ← θ − ηb   (Nesterov: θ ← θ − η(g + μb))
//! ```

use super::groups::{Common, Decay, GroupConfig};
use super::state;
use crate::kernel;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gradient descent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SgdConfig {
    /// The learning rate that the schedule multiplies.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// μ above; 0 for plain descent. Source: Sutskever et al. 2013, section 2.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub momentum: f64,
    /// τ above.
    pub dampening: f64,
    /// Whether the step looks ahead. Source: Sutskever et al. 2013, section 2.
    pub nesterov: bool,
    /// λ above: an L2 penalty.
    pub weight_decay: f64,
    /// Which parameters are decayed.
    pub decay: Decay,
    /// Parameters with another learning rate or decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for SgdConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl SgdConfig {
    pub(super) fn common(&self) -> Common<'_> {
        Common::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Sgd {
        Sgd {
            momentum: self.momentum as f32,
            dampening: self.dampening,
            nesterov: self.nesterov,
            weight_decay: weight_decay as f32,
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        if self.momentum == 0.0 && (self.nesterov || self.dampening != 0.0) {
            faults.push("nesterov and dampening act on momentum, which is 0".into());
        }
        if self.nesterov && self.dampening != 0.0 {
            faults.push("nesterov wants dampening = 0".into());
        }
    }
}

/// One parameter's update: Burn's, whose state says nothing of itself.
#[derive(Clone, Debug)]
pub struct Sgd {
    momentum: f32,
    dampening: f64,
    nesterov: bool,
    weight_decay: f32,
}

/// The momentum of one parameter, where there is one.
#[derive(Clone, Debug)]
pub struct SgdState<const D: usize>(Option<Tensor<D>>);

impl<const D: usize> SgdState<D> {
    /// b above.
    pub fn new(velocity: Option<Tensor<D>>) -> Self {
        Self(velocity)
    }

    /// b above.
    pub fn into_velocity(self) -> Option<Tensor<D>> {
        self.0
    }
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        mut grad: Tensor<D>,
        state: Option<SgdState<D>>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        if self.weight_decay > 0.0 {
            grad = tensor.clone() * self.weight_decay + grad;
        }
        if self.momentum == 0.0 {
            return (tensor - grad * lr, Some(SgdState(None)));
        }
        let velocity = match state.and_then(|state| state.0) {
            Some(velocity) => grad.clone() * (1.0 - self.dampening) + velocity * self.momentum,
            None => grad.clone(),
        };
        let step = match self.nesterov {
            true => velocity.clone() * self.momentum + grad,
            false => velocity.clone(),
        };
        (tensor - step * lr, Some(SgdState(Some(velocity))))
    }

    fn to_device<const D: usize>(state: SgdState<D>, device: &Device) -> SgdState<D> {
        SgdState(state.0.map(|velocity| velocity.to_device(device)))
    }
}

/// The names are those of Burn's own state, which checkpoints have.
const MOMENTUM: &str = "momentum";

impl<const D: usize> RecordState for SgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        if let Some(velocity) = &self.0 {
            out.push_tensor(
                &format!("{prefix}.{MOMENTUM}"),
                "velocity",
                kernel::read(velocity.clone()),
            );
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let prefix = format!("{prefix}.{MOMENTUM}");
        match src.has_under(&prefix) {
            true => Some(Self(Some(state::tensor(&prefix, "velocity", src, device)?))),
            false => Some(Self(None)),
        }
    }
}
