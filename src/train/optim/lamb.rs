//! LAMB, layer-wise adaptive moments for large batches (You et al. 2020, algorithm 2):
//!
//! ```text
//! r = m̂/(√v̂ + ε) + λθ,   θ ← θ − η·‖θ‖/‖r‖·r
//! ```
//!
//! with Adam's bias-corrected moments m̂ and v̂; the ratio is 1 if a norm is 0.

use super::groups::{CommonKeys, Decay, GroupConfig};
use burn::optim::{Lamb, LambConfig as BurnLamb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam whose step is scaled by each parameter's norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LambConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the first and the second moment. Source: You et al. 2020, algorithm 2.
    pub betas: [f64; 2],
    /// ε: added to the square root of the second moment.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Weight decay λ. Source: You et al. 2020, algorithm 2.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for LambConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.999],
            eps: 1e-6,
            weight_decay: 0.01,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl LambConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Lamb {
        BurnLamb::new()
            .with_beta_1(self.betas[0] as f32)
            .with_beta_2(self.betas[1] as f32)
            .with_epsilon(self.eps as f32)
            .with_weight_decay(weight_decay as f32)
            .build()
    }
}
