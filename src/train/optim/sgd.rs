//! Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch computes it:
//!
//! ```text
//! g ← g + λθ,   b ← μb + (1 − τ)g (b = g at first),   θ ← θ − ηb   (Nesterov: θ ← θ − η(g + μb))
//! ```

use super::groups::{Common, Decay, GroupConfig};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{Sgd, SgdConfig as BurnSgd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gradient descent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SgdConfig {
    /// The learning rate that the schedule multiplies.
    #[schemars(extend("exclusiveMinimum" = 0))]
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
        Common {
            weight_decay: self.weight_decay,
            decay: self.decay,
            groups: &self.groups,
            matrices: None,
        }
    }

    pub(super) fn step(&self, weight_decay: f64) -> Sgd {
        let mut sgd = BurnSgd::new();
        if self.momentum > 0.0 {
            sgd = sgd.with_momentum(Some(MomentumConfig {
                momentum: self.momentum,
                dampening: self.dampening,
                nesterov: self.nesterov,
            }));
        }
        if weight_decay > 0.0 {
            sgd = sgd.with_weight_decay(Some(WeightDecayConfig::new(weight_decay as f32)));
        }
        sgd.build()
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
