//! A power of the remaining share of a linear decay: `low + (base − low)·(1 − done)^power`, where `done` is the share
//! of the decay that is done. A power of 1 is `linear`; above 1 the rate falls fast at first, below 1 it falls late.

use super::DecayConfig;
use crate::kind::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) const KIND: Kind = Kind {
    kind: "polynomial",
    summary: "polynomial decay to min_lr",
    source: "Ott et al. 2019 (fairseq); Chen et al. 2018 (DeepLab), section 3.1",
    example: "kind = \"polynomial\"\nwarmup_steps = 100\npower = 2.0",
};

/// Maximum power: above it the rate all but vanishes after one step.
const MAX_POWER: f64 = 100.0;

/// Settings of `polynomial`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolynomialConfig {
    /// Steps of rising learning rate at the start.
    pub warmup_steps: u64,
    /// Step at which the decay has ended; `train.steps` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_steps: Option<u64>,
    /// Learning rate at the end; 0 when it and `final_fraction` are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lr: Option<f64>,
    /// Learning rate at the end as a fraction of the full one.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_fraction: Option<f64>,
    /// Exponent of the decay; 1 is linear.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 100))]
    pub power: f64,
}

impl Default for PolynomialConfig {
    fn default() -> Self {
        Self {
            warmup_steps: 0,
            decay_steps: None,
            min_lr: None,
            final_fraction: None,
            power: 1.0,
        }
    }
}

impl PolynomialConfig {
    /// Returns the decay without its power.
    pub(super) fn decay(&self) -> DecayConfig {
        DecayConfig {
            warmup_steps: self.warmup_steps,
            decay_steps: self.decay_steps,
            min_lr: self.min_lr,
            final_fraction: self.final_fraction,
        }
    }

    /// Returns the learning rate after the warmup.
    pub(super) fn lr(&self, base: f64, step: u64, total: u64) -> f64 {
        let decay = self.decay();
        let (low, done) = (decay.final_lr(base), decay.done(step, total));
        low + (1.0 - done).powf(self.power) * (base - low)
    }

    /// Returns the fault of `power`.
    pub(super) fn fault(&self) -> Option<String> {
        let fits = self.power > 0.0 && self.power <= MAX_POWER;
        (!fits).then(|| {
            let power = self.power;
            format!("power = {power} is not above 0 and at most {MAX_POWER}")
        })
    }
}
