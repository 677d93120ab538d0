//! Stretching of wavelengths for inputs longer than those of pre-training.

use super::longrope::{LongRotation, LongropeScalingConfig};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::one_table::is_true;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// How wavelengths are stretched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScalingConfig {
    /// No stretching.
    None(NoScalingConfig),
    /// Position interpolation: every position is divided by the factor.
    Linear(LinearScalingConfig),
    /// NTK-aware base: the base is multiplied by factor^(r/(r−2)).
    Ntk(NtkScalingConfig),
    /// YaRN: short wavelengths are kept, long ones stretched, with a ramp between; scores are sharpened.
    Yarn(YarnScalingConfig),
    /// Llama 3.1's: like YaRN, with the ramp in wavelengths and no sharpening.
    Llama3(Llama3ScalingConfig),
    /// LongRoPE: a factor for each wavelength, and other factors in long texts.
    Longrope(LongropeScalingConfig),
}

impl ScalingConfig {
    /// Reports invalid settings.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        let (factor, original) = match self {
            Self::None(_) => return,
            Self::Linear(c) => (c.factor, None),
            Self::Ntk(c) => (c.factor, None),
            Self::Yarn(c) => {
                if !(c.beta_slow > 0.0 && c.beta_fast > c.beta_slow) {
                    let rule = format!(
                        "beta_fast = {:?} must be above beta_slow = {:?}, and both above 0",
                        c.beta_fast, c.beta_slow
                    );
                    at.fault(&["beta_fast", "beta_slow"], rule);
                }
                if let Some(magnitude) = c.magnitude {
                    at.positive("magnitude", magnitude);
                }
                (c.factor, Some(c.original_context))
            }
            Self::Llama3(c) => {
                let (low, high) = (c.low_freq_factor, c.high_freq_factor);
                if !(low > 0.0 && high > low) {
                    let rule = format!(
                        "high_freq_factor = {high:?} must be above low_freq_factor = {low:?}, and both above 0"
                    );
                    at.fault(&["high_freq_factor", "low_freq_factor"], rule);
                }
                (c.factor, Some(c.original_context))
            }
            Self::Longrope(c) => return c.faults(at),
        };
        if !(factor >= 1.0 && factor.is_finite()) {
            at.fault(
                &["factor"],
                format!("factor = {factor:?} must be 1 or more"),
            );
        }
        at.count("original_context", original.unwrap_or(1), MAX_POSITIONS);
    }

    /// Reports settings that are invalid for this number of rotated pairs of a head's elements.
    pub fn pair_faults(&self, pairs: usize, at: &mut TableFaults) {
        match self {
            Self::Ntk(_) if pairs == 1 => at.fault(
                &["kind"],
                "kind = \"ntk\" needs 4 or more rotated elements in a head",
            ),
            Self::Longrope(c) => c.pair_faults(pairs, at),
            Self::None(_) | Self::Linear(_) | Self::Ntk(_) | Self::Yarn(_) | Self::Llama3(_) => {}
        }
    }

    /// Returns the rotation in long passes, if it differs.
    pub(super) fn long(&self, theta: f64, rotated: usize) -> Option<LongRotation> {
        match self {
            Self::Longrope(c) => Some(c.long(theta, rotated)),
            Self::None(_) | Self::Linear(_) | Self::Ntk(_) | Self::Yarn(_) | Self::Llama3(_) => {
                None
            }
        }
    }

    /// Returns θ_i for i in 0..rotated/2, and the factor on cosines and sines; those of short passes if long ones differ.
    pub(super) fn frequencies(&self, theta: f64, rotated: usize) -> (Vec<f64>, f64) {
        let r = rotated as f64;
        let plain = |theta: f64| base_frequencies(theta, rotated);
        match self {
            Self::None(_) => (plain(theta).collect(), 1.0),
            Self::Linear(s) => (plain(theta).map(|f| f / s.factor).collect(), 1.0),
            Self::Ntk(s) => {
                let theta = theta * s.factor.powf(r / (r - 2.0));
                (plain(theta).collect(), 1.0)
            }
            Self::Yarn(s) => {
                let turns = |beta: f64| {
                    r * (s.original_context as f64 / (beta * TAU)).ln() / (2.0 * theta.ln())
                };
                let [first, last] = [turns(s.beta_fast), turns(s.beta_slow)];
                let [first, last] = match s.truncate {
                    true => [first.floor(), last.ceil()],
                    false => [first, last],
                };
                let (low, high) = (first.max(0.0), last.min(r - 1.0));
                let width = match high - low {
                    // Negative if the whole ramp is on one side of the table, as in the released code.
                    width if width.abs() > 0.0 && width.is_finite() => width,
                    _ => 0.001,
                };
                let scaled = plain(theta).enumerate().map(|(i, f)| {
                    let ramp = ((i as f64 - low) / width).clamp(0.0, 1.0);
                    f / s.factor * ramp + f * (1.0 - ramp)
                });
                let usual = 0.1 * s.factor.max(1.0).ln() + 1.0;
                (scaled.collect(), s.magnitude.unwrap_or(usual))
            }
            Self::Llama3(s) => {
                let context = s.original_context as f64;
                let scaled = plain(theta).map(|f| {
                    let turns = context * f / TAU;
                    let keep = ((turns - s.low_freq_factor)
                        / (s.high_freq_factor - s.low_freq_factor))
                        .clamp(0.0, 1.0);
                    (1.0 - keep) * f / s.factor + keep * f
                });
                (scaled.collect(), 1.0)
            }
            Self::Longrope(s) => s.frequencies(theta, rotated),
        }
    }
}

/// Returns theta^(−2i/rotated) for i in 0..rotated/2.
pub(super) fn base_frequencies(theta: f64, rotated: usize) -> impl Iterator<Item = f64> {
    (0..rotated / 2).map(move |i| theta.powf(-2.0 * i as f64 / rotated as f64))
}

/// No stretching.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoScalingConfig {}

/// Position interpolation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinearScalingConfig {
    /// New length over trained length.
    pub factor: f64,
}

/// NTK-aware base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NtkScalingConfig {
    /// New length over trained length. Source: Peng et al. 2024, section 3.1.
    pub factor: f64,
}

/// YaRN (Peng et al. 2023, sections 3.2 to 3.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct YarnScalingConfig {
    /// New length over trained length. Source: Peng et al. 2024, section 3.4.
    pub factor: f64,
    /// Context length of pre-training.
    pub original_context: usize,
    /// Wavelengths with more turns than this within the original context are kept.
    /// Source: Peng et al. 2024, section 3.2.
    #[serde(default = "beta_fast")]
    pub beta_fast: f64,
    /// Wavelengths with fewer turns than this within the original context are stretched. Source: Peng et al. 2024, section 3.2.
    #[serde(default = "beta_slow")]
    pub beta_slow: f64,
    /// Factor on rotated queries and keys; 0.1·ln(factor) + 1 when absent. Source: Peng et al. 2024, section 3.3.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<f64>,
    /// Whether the ramp between kept and stretched wavelengths begins and ends at whole numbers.
    /// Source: Peng et al. 2023, released code; OpenAI 2025, gpt-oss, where it does not.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub truncate: bool,
}

fn yes() -> bool {
    true
}

fn beta_fast() -> f64 {
    32.0
}

fn beta_slow() -> f64 {
    1.0
}

/// Llama 3.1's scaling (released code).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Llama3ScalingConfig {
    /// New length over trained length.
    pub factor: f64,
    /// Context length of pre-training.
    pub original_context: usize,
    /// Wavelengths above original_context/low_freq_factor are stretched.
    pub low_freq_factor: f64,
    /// Wavelengths below original_context/high_freq_factor are kept.
    pub high_freq_factor: f64,
}
