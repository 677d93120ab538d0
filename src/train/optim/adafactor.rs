//! Adafactor (Shazeer and Stern 2018, algorithms 4 and 5): the second moments of a matrix are approximated by the
//! product of row and column moments.
//!
//! ```text
//! R ← β̂R + (1 − β̂)·mean_cols(g² + ε₁),   C ← β̂C + (1 − β̂)·mean_rows(g² + ε₁),   β̂ = 1 − t^decay_rate
//! u = g/√(RC/mean(R)),   u ← u/max(1, RMS(u)/d),   θ ← (1 − ηλ)θ − ρ·max(ε₂, RMS(θ))·u,   ρ = min(η, 1/√t)
//! ```
//!
//! This is the paper's form, with ε₁ = 10⁻³⁰ inside the average; PyTorch instead clamps the product at the machine
//! epsilon, which swallows gradients below 3·10⁻⁴.

use super::groups::{CommonKeys, Decay, GroupConfig};
use burn::optim::{Adafactor, AdafactorConfig as BurnAdafactor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adam with factored second moments, in little memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdafactorConfig {
    /// η: the learning rate that the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Exponent of the decay of the second moments; negative. Source: Shazeer and Stern 2018, algorithm 4.
    pub decay_rate: f64,
    /// ε₁: added to squared gradients. Source: Shazeer and Stern 2018, algorithm 4.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// ε₂: the minimum scale of a parameter. Source: Shazeer and Stern 2018, algorithm 4.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub min_scale: f64,
    /// d: the maximum root mean square of an update. Source: Shazeer and Stern 2018, algorithm 4.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub clip_threshold: f64,
    /// Whether ρ is capped at 1/√t. Source: Shazeer and Stern 2018, algorithm 4.
    pub relative_step: bool,
    /// Whether a step is scaled by the parameter's root mean square. Source: Shazeer and Stern 2018, algorithm 4.
    pub scale_parameter: bool,
    /// Weight decay λ.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for AdafactorConfig {
    fn default() -> Self {
        Self {
            lr: 1e-2,
            decay_rate: -0.8,
            eps: 1e-30,
            min_scale: 1e-3,
            clip_threshold: 1.0,
            relative_step: true,
            scale_parameter: true,
            weight_decay: 0.0,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl AdafactorConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn step(&self, weight_decay: f64) -> Adafactor {
        BurnAdafactor::new()
            .with_epsilon_1(self.eps as f32)
            .with_epsilon_2(self.min_scale as f32)
            .with_clip_threshold(self.clip_threshold as f32)
            .with_decay_rate(self.decay_rate)
            .with_relative_step(self.relative_step)
            .with_scale_parameter(self.scale_parameter)
            .with_weight_decay(weight_decay as f32)
            .build()
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        for (key, value) in [
            ("eps", self.eps),
            ("min_scale", self.min_scale),
            ("clip_threshold", self.clip_threshold),
        ] {
            faults.extend(super::positive_fault(key, value));
        }
        if !((self.decay_rate as f32) < 0.0 && (self.decay_rate as f32).is_finite()) {
            faults.push(format!(
                "decay_rate = {} is not a negative number",
                self.decay_rate
            ));
        }
    }
}
