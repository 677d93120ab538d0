//! Lion, evolved sign momentum (Chen et al. 2023, "Symbolic discovery of optimization algorithms"):
//!
//! ```text
//! θ ← (1 − ηλ)θ − η·sign(β₁m + (1 − β₁)g),   m ← β₂m + (1 − β₂)g
//! ```
//!
//! It wants a learning rate 3 to 10 times smaller than AdamW's, and a decay that much larger.

use super::cautious::CautiousLion;
use super::groups::{Common, Decay, GroupConfig};
use crate::one_table::is_usual;
use burn::optim::{Lion, LionConfig as BurnLion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sign momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LionConfig {
    /// The learning rate that the schedule multiplies.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Weight of the momentum in the step, and its decay. Source: Chen et al. 2023, algorithm 2.
    pub betas: [f64; 2],
    /// λ above. Source: Chen et al. 2023, algorithm 2.
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
    pub(super) fn common(&self) -> Common<'_> {
        Common::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Lion {
        BurnLion::new()
            .with_beta_1(self.betas[0] as f32)
            .with_beta_2(self.betas[1] as f32)
            .with_weight_decay(weight_decay as f32)
            .build()
    }

    pub(super) fn cautious_step(&self, weight_decay: f64) -> CautiousLion {
        CautiousLion {
            betas: self.betas,
            weight_decay,
        }
    }
}
