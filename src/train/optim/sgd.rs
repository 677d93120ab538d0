//! Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch computes it:
//!
//! ```text
//! g ← g + λθ,   b ← μb + (1 − τ)g (b = g at first),   θ ← θ − ηb   (Nesterov: θ ← θ − η(g + μb))
//! ```

use super::elementwise::step_in_dtype;
use super::groups::{CommonKeys, Decay, GroupConfig};
use super::state;
use crate::kernel::{self, DescentArgs, MomentumArgs, ScheduledStep};
use crate::train::verdict::Verdict;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gradient descent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SgdConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Momentum μ; 0 for plain gradient descent. Source: Sutskever et al. 2013, section 2.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub momentum: f64,
    /// Dampening τ of the gradient in the momentum.
    pub dampening: f64,
    /// Whether to use Nesterov momentum. Source: Sutskever et al. 2013, section 2.
    pub nesterov: bool,
    /// Weight λ of the L2 penalty.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
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
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Sgd {
        Sgd {
            momentum: self.momentum,
            dampening: self.dampening,
            nesterov: self.nesterov,
            weight_decay,
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        if self.momentum == 0.0 && (self.nesterov || self.dampening != 0.0) {
            faults.push("nesterov and dampening have no effect with momentum = 0".into());
        }
        if self.nesterov && self.dampening != 0.0 {
            faults.push("nesterov = true needs dampening = 0".into());
        }
    }
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Sgd {
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
}

/// The momentum of one parameter, if there is one.
#[derive(Clone, Debug)]
pub struct SgdState<const D: usize>(Option<Tensor<D>>);

impl Sgd {
    /// Returns the coefficients of a step with momentum; the first step uses the whole gradient.
    fn args(&self, lr: f64, first: bool) -> MomentumArgs {
        MomentumArgs {
            descent: self.descent(lr),
            decay: match first {
                true => [0.0, 1.0],
                false => [self.momentum, 1.0 - self.dampening],
            },
            nesterov: self.nesterov.then_some(self.momentum),
        }
    }

    fn descent(&self, lr: f64) -> DescentArgs {
        DescentArgs {
            lr,
            penalty: self.weight_decay,
        }
    }

    /// Takes a step, which the host or the device has decided on.
    pub(super) fn take_step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<SgdState<D>>,
        verdict: Option<&Verdict>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        let own = self.clone();
        if self.momentum == 0.0 {
            let step = ScheduledStep::new(lr, 1, move |lr, _| own.descent(lr));
            let (tensor, []) = step_in_dtype(tensor, grad, [], &step, verdict);
            return (tensor, Some(SgdState(None)));
        }
        let velocity = state.and_then(|state| state.0);
        let first = velocity.is_none();
        let velocity = velocity.unwrap_or_else(|| grad.zeros_like());
        let step = ScheduledStep::new(lr, 1, move |lr, _| own.args(lr, first));
        let (tensor, [velocity]) = step_in_dtype(tensor, grad, [velocity], &step, verdict);
        (tensor, Some(SgdState(Some(velocity))))
    }
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<SgdState<D>>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        self.take_step(lr, tensor, grad, state, None)
    }

    fn to_device<const D: usize>(state: SgdState<D>, device: &Device) -> SgdState<D> {
        SgdState(state.0.map(|velocity| velocity.to_device(device)))
    }
}

/// Name in checkpoints, the same as in Burn's own state.
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
