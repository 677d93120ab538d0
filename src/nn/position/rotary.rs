//! Rotary positions: pairs of query and key elements rotated by mθ_i, θ_i = theta^(−2i/r), so that a score
//! depends on the distance alone (Su et al. 2021, RoFormer, section 3.2).
//!
//! `fraction` rotates the first part of each head only (GPT-NeoX). Scalings stretch the wavelengths for
//! longer inputs: linear (Chen et al. 2023), NTK-aware base, YaRN (Peng et al. 2023), Llama 3.1's.

use super::facts::{Acts, Known, Means, PositionFacts};
use super::{Kind, PositionScheme, PositionShape, Prepared, Rotation, Span};
use crate::faults::{LONGEST, TableFaults};
use crate::kernel::replay;
use burn::module::Module;
use burn::tensor::{Device, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "rotary",
    summary: "queries and keys rotated by their position",
    source: "Su et al. 2021, section 3.2",
    example: "{ kind = \"rotary\", theta = 10000.0, pairing = \"half\" }",
};

/// The knobs of rotary positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotaryConfig {
    /// Base of the wavelengths. Source: Su et al. 2021, section 3.2.2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub theta: f64,
    /// Which elements of a head make a pair.
    pub pairing: Pairing,
    /// Part of each head that is rotated, in (0, 1]. Source: Black et al. 2022, section 2.1.1.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    pub fraction: f64,
    /// Whether values are rotated as keys are, so that a mean of values tells where they stood (RoFormer's released
    /// code).
    pub rotate_values: bool,
    /// Stretching for inputs longer than those of pre-training.
    pub scaling: ScalingConfig,
}

impl Default for RotaryConfig {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            pairing: Pairing::Half,
            fraction: 1.0,
            rotate_values: false,
            scaling: ScalingConfig::None(NoScalingConfig {}),
        }
    }
}

/// Which elements of a head make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// (i, i + r/2): GPT-NeoX, LLaMA as HF stores it.
    Half,
    /// (2i, 2i + 1): RoFormer, GPT-J, LLaMA as Meta stores it.
    Interleaved,
}

/// How wavelengths are stretched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScalingConfig {
    /// Not at all.
    None(NoScalingConfig),
    /// Every position divided by the factor.
    Linear(LinearScalingConfig),
    /// The base multiplied by factor^(r/(r−2)).
    Ntk(NtkScalingConfig),
    /// Short wavelengths kept, long ones divided, a ramp between; scores sharpened.
    Yarn(YarnScalingConfig),
    /// Llama 3.1's: as YaRN, with the ramp in wavelengths and no sharpening.
    Llama3(Llama3ScalingConfig),
}

impl ScalingConfig {
    /// Faults of its keys.
    fn faults(&self, at: &mut TableFaults) {
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
        };
        if !(factor >= 1.0 && factor.is_finite()) {
            at.fault(
                &["factor"],
                format!("factor = {factor:?} must be 1 or more"),
            );
        }
        at.count("original_context", original.unwrap_or(1), LONGEST);
    }
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
    /// Length of pre-training.
    pub original_context: usize,
    /// Wavelengths that turn more often than this in the original context are kept.
    /// Source: Peng et al. 2024, section 3.2.
    #[serde(default = "beta_fast")]
    pub beta_fast: f64,
    /// Wavelengths that turn less often than this are divided. Source: Peng et al. 2024, section 3.2.
    #[serde(default = "beta_slow")]
    pub beta_slow: f64,
    /// Factor on turned queries and keys; 0.1·ln(factor) + 1 when absent. Source: Peng et al. 2024, section 3.3.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<f64>,
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
    /// Length of pre-training.
    pub original_context: usize,
    /// Wavelengths above original_context/low_freq_factor are divided.
    pub low_freq_factor: f64,
    /// Wavelengths below original_context/high_freq_factor are kept.
    pub high_freq_factor: f64,
}

impl RotaryConfig {
    /// Faults of what is rotated of a head.
    fn pair_faults(&self, head: usize, at: &mut TableFaults) {
        let rotated = (head as f64 * self.fraction) as usize;
        let keys = [
            "fraction",
            "model.attention.d_head",
            "model.attention.n_heads",
            "model.d_model",
        ];
        if rotated < 2 || !rotated.is_multiple_of(2) {
            let rule = format!(
                "rotary positions turn pairs, but fraction = {:?} of a head of {head} is {rotated} elements; make \
                 it even and at least 2",
                self.fraction
            );
            at.fault(&keys, rule);
        } else if rotated == 2 && matches!(self.scaling, ScalingConfig::Ntk(_)) {
            at.within("scaling", |at| {
                at.fault(
                    &["kind"],
                    "kind = \"ntk\" needs 4 or more rotated elements in a head",
                );
            });
        }
    }

    /// The number of elements of a head that are rotated: even, at least 2.
    pub fn rotated(&self, d_head: usize) -> usize {
        (((d_head as f64 * self.fraction) as usize) / 2 * 2).max(2)
    }

    /// θ_i for i in 0..rotated/2, and the factor on cosines and sines.
    pub fn frequencies(&self, rotated: usize) -> (Vec<f64>, f64) {
        let r = rotated as f64;
        let plain = |theta: f64| (0..rotated / 2).map(move |i| theta.powf(-2.0 * i as f64 / r));
        match &self.scaling {
            ScalingConfig::None(_) => (plain(self.theta).collect(), 1.0),
            ScalingConfig::Linear(s) => (plain(self.theta).map(|f| f / s.factor).collect(), 1.0),
            ScalingConfig::Ntk(s) => {
                let theta = self.theta * s.factor.powf(r / (r - 2.0));
                (plain(theta).collect(), 1.0)
            }
            ScalingConfig::Yarn(s) => {
                let turns = |beta: f64| {
                    r * (s.original_context as f64 / (beta * TAU)).ln() / (2.0 * self.theta.ln())
                };
                let low = turns(s.beta_fast).floor().max(0.0);
                let high = turns(s.beta_slow).ceil().min(r - 1.0);
                let width = if high > low { high - low } else { 0.001 };
                let scaled = plain(self.theta).enumerate().map(|(i, f)| {
                    let ramp = ((i as f64 - low) / width).clamp(0.0, 1.0);
                    f / s.factor * ramp + f * (1.0 - ramp)
                });
                let usual = 0.1 * s.factor.max(1.0).ln() + 1.0;
                (scaled.collect(), s.magnitude.unwrap_or(usual))
            }
            ScalingConfig::Llama3(s) => {
                let context = s.original_context as f64;
                let scaled = plain(self.theta).map(|f| {
                    let turns = context * f / TAU;
                    let keep = ((turns - s.low_freq_factor)
                        / (s.high_freq_factor - s.low_freq_factor))
                        .clamp(0.0, 1.0);
                    (1.0 - keep) * f / s.factor + keep * f
                });
                (scaled.collect(), 1.0)
            }
        }
    }
}

impl PositionFacts for RotaryConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts(&self) -> Acts {
        Acts::Heads(Means::Rotation)
    }

    fn of_blocks(&self) -> bool {
        true
    }

    fn faults(&self, known: &Known, at: &mut TableFaults) {
        at.positive("theta", self.theta);
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            let rule = format!(
                "fraction = {:?} must be above 0 and at most 1",
                self.fraction
            );
            at.fault(&["fraction"], rule);
        } else if let Some(head) = known.d_head {
            self.pair_faults(head, at);
        }
        at.within("scaling", |at| self.scaling.faults(at));
    }

    fn turns_values(&self) -> bool {
        self.rotate_values
    }

    fn of_images(&self) -> Option<Kind> {
        Some(super::rotary_2d::KIND)
    }
}

/// Rotates queries and keys, and values when asked for.
#[derive(Module, Debug)]
pub struct Rotary {
    frequencies: Vec<f64>,
    magnitude: f64,
    interleaved: bool,
    values: bool,
}

impl Rotary {
    /// The scheme for a model of this shape.
    pub fn new(config: &RotaryConfig, shape: &PositionShape) -> Self {
        let (frequencies, magnitude) = config.frequencies(config.rotated(shape.d_head));
        Self {
            frequencies,
            magnitude,
            interleaved: config.pairing == Pairing::Interleaved,
            values: config.rotate_values,
        }
    }
}

impl PositionScheme for Rotary {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let half = self.frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for p in span.offset..span.offset + span.queries {
            for f in &self.frequencies {
                let (s, c) = (p as f64 * f).sin_cos();
                cos.push((c * self.magnitude) as f32);
                sin.push((s * self.magnitude) as f32);
            }
        }
        let table = |v: Vec<f32>| replay::floats(TensorData::new(v, [span.queries, half]), device);
        Prepared {
            rotation: Some(Rotation {
                cos: table(cos),
                sin: table(sin),
                interleaved: self.interleaved,
                values: self.values,
            }),
            ..Prepared::default()
        }
    }
}
