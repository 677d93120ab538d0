//! Learning rates as closed forms of the step: nothing to save, nothing to replay.
//!
//! `step` counts from 0 and is the step about to be taken. During a warmup of `w` steps every schedule except T5's
//! gives `base·(step + 1)/(w + 1)`, as nanoGPT does: the first step is not 0, and the step after the warmup has the full rate.

mod cosine_restarts;
mod faults;
mod polynomial;
mod run_length;
mod wsd;

use crate::nn::Kind;
pub use cosine_restarts::CosineRestartsConfig;
pub use polynomial::PolynomialConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
pub use wsd::{WsdConfig, WsdShape};

/// `[schedule]`: how the learning rate changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScheduleConfig {
    /// A constant learning rate.
    Constant(ConstantConfig),
    /// A linear decay.
    Linear(DecayConfig),
    /// A half cosine decay.
    Cosine(DecayConfig),
    /// A decay with the inverse square root of the step.
    InverseSqrt(InverseSqrtConfig),
    /// The rule of the 2017 Transformer.
    Noam(NoamConfig),
    /// Warmup, a plateau, a short decay.
    Wsd(WsdConfig),
    /// A power of a linear decay.
    Polynomial(PolynomialConfig),
    /// Consecutive half cosines, each from the full rate.
    CosineRestarts(CosineRestartsConfig),
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self::Constant(ConstantConfig::default())
    }
}

/// The kinds of `[schedule]`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "constant",
        summary: "constant learning rate after the warmup",
        source: "",
        example: "kind = \"constant\"\nwarmup_steps = 100",
    },
    Kind {
        kind: "linear",
        summary: "linear decay to min_lr",
        source: "Devlin et al. 2019 (BERT)",
        example: "kind = \"linear\"\nwarmup_steps = 100",
    },
    Kind {
        kind: "cosine",
        summary: "half-cosine decay to min_lr",
        source: "Loshchilov and Hutter 2017; Radford et al. 2018",
        example: "kind = \"cosine\"\nwarmup_steps = 100\nfinal_fraction = 0.1",
    },
    Kind {
        kind: "inverse_sqrt",
        summary: "base·√(warmup/step) after the warmup, which is linear or (T5) constant",
        source: "Ott et al. 2019 (fairseq); Raffel et al. 2020, section 3.1.2 (T5)",
        example: "kind = \"inverse_sqrt\"\nwarmup_steps = 4000\nwarmup = \"linear\"",
    },
    Kind {
        kind: "noam",
        summary: "lr·d_model^-0.5·min(n^-0.5, n·warmup^-1.5) at step n",
        source: "Vaswani et al. 2017, section 5.3",
        example: "kind = \"noam\"\nwarmup_steps = 4000",
    },
    wsd::KIND,
    polynomial::KIND,
    cosine_restarts::KIND,
];

/// Setting of `constant`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConstantConfig {
    /// Steps of rising learning rate at the start.
    pub warmup_steps: u64,
}

/// Settings of `linear` and `cosine`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DecayConfig {
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
}

/// Settings of `inverse_sqrt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InverseSqrtConfig {
    /// Steps of the warmup, after which the decay begins.
    pub warmup_steps: u64,
    /// Learning rate during the warmup.
    pub warmup: Warmup,
    /// Minimum learning rate.
    pub min_lr: f64,
}

/// Learning rate before it falls with the inverse square root of the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// A linear rise (fairseq's `inverse_sqrt`; the shape of Vaswani et al. 2017).
    #[default]
    Linear,
    /// The full rate: base·√(w/max(step, w)), which is T5's 1/√max(step, w) for a base of 1/√w (Raffel et al. 2020,
    /// section 3.1.2; Adafactor's relative steps fall in the same way, Shazeer and Stern 2018, section 9).
    Constant,
}

impl Default for InverseSqrtConfig {
    fn default() -> Self {
        Self {
            warmup_steps: 4000,
            warmup: Warmup::Linear,
            min_lr: 0.0,
        }
    }
}

/// Settings of `noam`; the optimizer's `lr` is the formula's factor, 1 in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoamConfig {
    /// Steps of rising learning rate at the start. Source: Vaswani et al. 2017, section 5.3.
    pub warmup_steps: u64,
    /// Width in the formula; the model's when absent. Source: Vaswani et al. 2017, section 5.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_model: Option<u64>,
}

impl Default for NoamConfig {
    fn default() -> Self {
        Self {
            warmup_steps: 4000,
            d_model: None,
        }
    }
}

/// Width that `noam` uses if no model gives one (Vaswani et al. 2017, the base model).
const PAPER_WIDTH: u64 = 512;

impl ScheduleConfig {
    /// Returns the schedule for a model of this width, with unset values that depend on it filled in.
    #[must_use]
    pub fn for_width(&self, d_model: usize) -> Self {
        let mut schedule = self.clone();
        if let Self::Noam(c) = &mut schedule {
            c.d_model.get_or_insert(d_model as u64);
        }
        schedule
    }

    /// Returns whether the learning rate depends on the width of the model.
    pub fn depends_on_width(&self) -> bool {
        matches!(self, Self::Noam(_))
    }

    /// Returns whether the learning rate is constant after the warmup.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// Returns the learning rate of the step about to be taken, counted from 0, in a run of `total` steps.
    pub fn lr(&self, base: f64, step: u64, total: u64) -> f64 {
        let warmup = self.warmup_steps();
        if let Self::Noam(c) = self {
            let n = (step + 1) as f64;
            let w = (c.warmup_steps.max(1)) as f64;
            let width = c.d_model.unwrap_or(PAPER_WIDTH) as f64;
            return base / width.sqrt() * (1.0 / n.sqrt()).min(n * w.powf(-1.5));
        }
        if step < warmup && !self.has_constant_warmup() {
            return base * (step + 1) as f64 / (warmup + 1) as f64;
        }
        match self {
            Self::Constant(_) => base,
            Self::Linear(c) => {
                let (low, done) = (c.final_lr(base), c.done(step, total));
                low + (1.0 - done) * (base - low)
            }
            Self::Cosine(c) => {
                let (low, done) = (c.final_lr(base), c.done(step, total));
                low + 0.5 * (1.0 + (PI * done).cos()) * (base - low)
            }
            Self::InverseSqrt(c) => {
                let w = warmup.max(1) as f64;
                (base * (w / (step as f64).max(w)).sqrt()).max(c.min_lr)
            }
            Self::Wsd(c) => c.lr(base, step, total),
            Self::Polynomial(c) => c.lr(base, step, total),
            Self::CosineRestarts(c) => c.lr(base, step, total),
            Self::Noam(_) => unreachable!("returned above: its warmup is part of the formula"),
        }
    }

    /// Returns the maximum learning rate for the optimizer's `base`: `base` itself, unless it is a factor of the formula.
    pub fn peak(&self, base: f64) -> f64 {
        match self {
            Self::Noam(c) => self.lr(base, c.warmup_steps.saturating_sub(1), u64::MAX),
            Self::Constant(_)
            | Self::Linear(_)
            | Self::Cosine(_)
            | Self::InverseSqrt(_)
            | Self::Wsd(_)
            | Self::Polynomial(_)
            | Self::CosineRestarts(_) => base,
        }
    }

    /// Whether the warmup uses the full learning rate.
    fn has_constant_warmup(&self) -> bool {
        matches!(self, Self::InverseSqrt(c) if c.warmup == Warmup::Constant)
    }

    /// Returns the number of warmup steps.
    pub fn warmup_steps(&self) -> u64 {
        match self {
            Self::Constant(c) => c.warmup_steps,
            Self::Linear(c) | Self::Cosine(c) => c.warmup_steps,
            Self::InverseSqrt(c) => c.warmup_steps,
            Self::Noam(c) => c.warmup_steps,
            Self::Wsd(c) => c.warmup_steps,
            Self::Polynomial(c) => c.warmup_steps,
            Self::CosineRestarts(c) => c.warmup_steps,
        }
    }
}

impl DecayConfig {
    fn final_lr(&self, base: f64) -> f64 {
        low(base, self.min_lr, self.final_fraction)
    }

    fn done(&self, step: u64, total: u64) -> f64 {
        progress(step, self.warmup_steps, self.decay_steps.unwrap_or(total))
    }
}

/// Returns the learning rate at the end.
fn low(base: f64, min_lr: Option<f64>, final_fraction: Option<f64>) -> f64 {
    min_lr.unwrap_or(final_fraction.unwrap_or(0.0) * base)
}

/// Returns the share of the way from `start` to `end` that is done at `step`, in 0 … 1.
fn progress(step: u64, start: u64, end: u64) -> f64 {
    if step >= end {
        return 1.0;
    }
    step.saturating_sub(start) as f64 / (end - start.min(end - 1)) as f64
}
