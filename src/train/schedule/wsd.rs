//! Warmup, a plateau at the full rate, and a decay over the last steps (Hu et al. 2024, section 4).

use super::{low, progress};
use crate::kind::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

pub(super) const KIND: Kind = Kind {
    kind: "wsd",
    summary: "warmup, a plateau, then a decay over the last steps",
    source: "Hu et al. 2024 (MiniCPM)",
    example: "kind = \"wsd\"\nwarmup_steps = 100\ndecay_fraction = 0.2",
};

/// Settings of `wsd`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WsdConfig {
    /// Steps of rising learning rate at the start.
    pub warmup_steps: u64,
    /// Steps of the decay at the end; `decay_fraction` of `train.steps` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_steps: Option<u64>,
    /// Share of `train.steps` that the decay takes; 0.1 when it and `decay_steps` are absent. Source: Hu et al. 2024, section 4.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_fraction: Option<f64>,
    /// Learning rate at the end; 0 when it and `final_fraction` are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lr: Option<f64>,
    /// Learning rate at the end as a fraction of the full one.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_fraction: Option<f64>,
    /// Shape of the decay.
    pub shape: WsdShape,
}

impl Default for WsdConfig {
    fn default() -> Self {
        Self {
            warmup_steps: 0,
            decay_steps: None,
            decay_fraction: None,
            min_lr: None,
            final_fraction: None,
            shape: WsdShape::Linear,
        }
    }
}

/// Shape of the decay at the end of `wsd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WsdShape {
    /// A linear decay.
    Linear,
    /// A half cosine.
    Cosine,
    /// 1 − √(share of the decay done) (Hägele et al. 2024).
    Sqrt,
}

/// Share of the run that the decay takes if `wsd` names none (Hägele et al. 2024: 10 to 20 % of the run).
pub(super) const WSD_DECAY: f64 = 0.1;

impl WsdConfig {
    /// Returns the number of steps in the decay.
    pub(super) fn decay_length(&self, total: u64) -> u64 {
        let share = self.decay_fraction.unwrap_or(WSD_DECAY);
        self.decay_steps
            .unwrap_or((share * total as f64).round() as u64)
    }

    /// Returns the learning rate after the warmup.
    pub(super) fn lr(&self, base: f64, step: u64, total: u64) -> f64 {
        let length = self.decay_length(total);
        let start = total.saturating_sub(length).max(self.warmup_steps);
        let low = low(base, self.min_lr, self.final_fraction);
        let done = progress(step, start, total);
        let left = match self.shape {
            WsdShape::Linear => 1.0 - done,
            WsdShape::Cosine => 0.5 * (1.0 + (PI * done).cos()),
            WsdShape::Sqrt => 1.0 - done.sqrt(),
        };
        low + left * (base - low)
    }

    /// Returns the fault of the decay's length.
    pub(super) fn fault(&self) -> Option<String> {
        if self.decay_steps.is_some() && self.decay_fraction.is_some() {
            return Some(
                "decay_steps and decay_fraction both set the length of the decay; keep one".into(),
            );
        }
        let wrong = self.decay_fraction.filter(|f| !(0.0..=1.0).contains(f));
        wrong.map(|f| format!("decay_fraction = {f} is not between 0 and 1"))
    }
}
