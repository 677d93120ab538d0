//! Consecutive half cosines, each falling from the full rate: SGDR (Loshchilov and Hutter 2017, section 3). The cycles
//! fill the steps from the end of the warmup to the end of the decay, each `growth` times as long as the one before it.
//! With `growth` = 1 this is the cosine schedule with hard restarts of transformers; SGDR's T_0 and T_mult correspond
//! to `growth` = T_mult and as many cycles as make T_0·(1 + T_mult + T_mult² + …) steps.

use super::DecayConfig;
use crate::kind::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

pub(super) const KIND: Kind = Kind {
    kind: "cosine_restarts",
    summary: "half-cosine decays to min_lr, each from the full learning rate",
    source: "Loshchilov and Hutter 2017, section 3 (SGDR)",
    example: "kind = \"cosine_restarts\"\nwarmup_steps = 100\ncycles = 3\ngrowth = 2.0",
};

/// Maximum number of cycles.
const MAX_CYCLES: u64 = 10_000;
/// Maximum growth of a cycle.
const MAX_GROWTH: f64 = 10.0;
/// Share of the decay by which the sums of growing cycles may miss a whole step through rounding.
const ROUNDING: f64 = 1e-9;

/// Settings of `cosine_restarts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CosineRestartsConfig {
    /// Steps of rising learning rate at the start.
    pub warmup_steps: u64,
    /// Step at which the last cycle has ended; `train.steps` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_steps: Option<u64>,
    /// Learning rate at the end of each cycle; 0 when it and `final_fraction` are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lr: Option<f64>,
    /// Learning rate at the end of each cycle as a fraction of the full one.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_fraction: Option<f64>,
    /// Number of half cosines between the warmup and the end; 1 has no restart.
    #[schemars(range(min = 1, max = 10000))]
    pub cycles: u64,
    /// Factor from each cycle's length to the next one's. Source: Loshchilov and Hutter 2017, section 3 (T_mult).
    #[schemars(range(min = 1, max = 10))]
    pub growth: f64,
}

impl Default for CosineRestartsConfig {
    fn default() -> Self {
        Self {
            warmup_steps: 0,
            decay_steps: None,
            min_lr: None,
            final_fraction: None,
            cycles: 4,
            growth: 1.0,
        }
    }
}

impl CosineRestartsConfig {
    /// Returns the decay as if it had one cycle.
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
        let low = self.decay().final_lr(base);
        let done = self.done(step, total);
        low + 0.5 * (1.0 + (PI * done).cos()) * (base - low)
    }

    /// Returns the share of the current cycle that is done.
    fn done(&self, step: u64, total: u64) -> f64 {
        if step >= self.decay_steps.unwrap_or(total) {
            return 1.0;
        }
        let (behind, length) = (step.saturating_sub(self.warmup_steps), self.length(total));
        if self.growth == 1.0 {
            // In integers, so that a cycle begins exactly at its step.
            let behind = u128::from(behind) * u128::from(self.cycles) % u128::from(length);
            return behind as f64 / length as f64;
        }
        let rounding = ROUNDING * length as f64;
        let mut cycle = length as f64 / self.in_first_cycles(self.cycles);
        let mut left = behind as f64;
        for _ in 1..self.cycles {
            if left < cycle - rounding {
                break;
            }
            left -= cycle;
            cycle *= self.growth;
        }
        (left / cycle).clamp(0.0, 1.0)
    }

    /// Returns the number of steps in all cycles, at least 1.
    fn length(&self, total: u64) -> u64 {
        let end = self.decay_steps.unwrap_or(total);
        end.saturating_sub(self.warmup_steps).max(1)
    }

    /// Returns the length of this many cycles, in units of the first one.
    fn in_first_cycles(&self, cycles: u64) -> f64 {
        let lengths = std::iter::successors(Some(1.0), |length| Some(length * self.growth));
        lengths
            .take(usize::try_from(cycles).unwrap_or(usize::MAX))
            .sum()
    }

    /// Returns the fault of `cycles` or `growth`.
    pub(super) fn fault(&self) -> Option<String> {
        let (cycles, growth) = (self.cycles, self.growth);
        if !(1..=MAX_CYCLES).contains(&cycles) {
            return Some(format!(
                "cycles = {cycles} is not between 1 and {MAX_CYCLES}"
            ));
        }
        let fits = (1.0..=MAX_GROWTH).contains(&growth);
        (!fits).then(|| format!("growth = {growth} is not between 1 and {MAX_GROWTH}"))
    }

    /// Returns the largest number of cycles, up to `cycles`, that leaves the first one at least one of `length` steps.
    pub(super) fn max_cycles_in(&self, length: u64) -> u64 {
        let (mut cycles, mut steps, mut next) = (0u64, 0.0, 1.0);
        while cycles < self.cycles.min(MAX_CYCLES) && steps + next <= length as f64 {
            (cycles, steps, next) = (cycles + 1, steps + next, next * self.growth);
        }
        cycles.max(1)
    }

    /// Returns the fault of cycles for which a run of `total` steps has no room although it has room for the decay.
    pub(super) fn length_fault(&self, total: u64) -> Option<String> {
        let length = self.length(total);
        if self.fault().is_some() || self.max_cycles_in(length) == self.cycles {
            return None;
        }
        let end = match self.decay_steps {
            Some(end) => format!("decay_steps = {end}"),
            None => format!("[train] steps = {total}"),
        };
        Some(format!(
            "cycles = {} with growth = {} leave less than one step for the first cycle, between warmup_steps = {} and {end}",
            self.cycles, self.growth, self.warmup_steps
        ))
    }
}
