//! Rotary positions: pairs of query and key elements rotated by mθ_i, θ_i = theta^(−2i/r), so that a score depends only on the
//! distance (Su et al. 2021, RoFormer, section 3.2).
//!
//! With `fraction`, only the first part of each head is rotated (GPT-NeoX). Scalings stretch the wavelengths for longer inputs:
//! linear (Chen et al. 2023), NTK-aware base, YaRN (Peng et al. 2023), Llama 3.1's, LongRoPE (Ding et al. 2024).

mod longrope;
mod scaling;

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts};
use super::{Kind, PositionScheme, PositionShape, Prepared, Rotation, Span};
use crate::faults::TableFaults;
use crate::kernel::replay;
use burn::module::Module;
use burn::tensor::{Device, TensorData};
use longrope::LongRotation;
pub use longrope::LongropeScalingConfig;
pub use scaling::{
    LinearScalingConfig, Llama3ScalingConfig, NoScalingConfig, NtkScalingConfig, ScalingConfig,
    YarnScalingConfig,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rotary",
    summary: "queries and keys rotated by their position",
    source: "Su et al. 2021, section 3.2",
    example: "{ kind = \"rotary\", theta = 10000.0, pairing = \"half\" }",
};

/// Settings of rotary positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotaryConfig {
    /// Base of the wavelengths. Source: Su et al. 2021, section 3.2.2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub theta: f64,
    /// Which elements of a head form a pair.
    pub pairing: Pairing,
    /// Fraction of each head that is rotated, in (0, 1]. Source: Black et al. 2022, section 2.1.1.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    pub fraction: f64,
    /// Whether values are rotated like keys, so that a mean of values tells their positions (RoFormer's released code).
    pub rotate_values: bool,
    /// Stretching of the wavelengths for inputs longer than those of pre-training.
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

/// Which elements of a head form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// (i, i + r/2): GPT-NeoX, LLaMA as HF stores it.
    Half,
    /// (2i, 2i + 1): RoFormer, GPT-J, LLaMA as Meta stores it.
    Interleaved,
}

impl RotaryConfig {
    /// Reports faults of the rotated part of a head.
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
                "rotary positions rotate pairs of elements, but fraction = {:?} of a head of {head} is {rotated}; make this \
                 number even and at least 2",
                self.fraction
            );
            at.fault(&keys, rule);
        } else {
            at.nested("scaling", |at| self.scaling.pair_faults(rotated / 2, at));
        }
    }

    /// Returns the number of elements of a head that are rotated: even, at least 2.
    pub fn rotated_width(&self, d_head: usize) -> usize {
        (((d_head as f64 * self.fraction) as usize) / 2 * 2).max(2)
    }

    /// Returns θ_i for i in 0..rotated/2, and the factor on cosines and sines; with LongRoPE, those of short passes.
    pub fn frequencies(&self, rotated: usize) -> (Vec<f64>, f64) {
        self.scaling.frequencies(self.theta, rotated)
    }
}

impl PositionFacts for RotaryConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Rotation)
    }

    fn allowed_per_block(&self) -> bool {
        true
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
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
        at.nested("scaling", |at| self.scaling.faults(at));
    }

    fn rotates_values(&self) -> bool {
        self.rotate_values
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::rotary_2d::KIND)
    }
}

/// Rotates queries and keys, and values if configured.
#[derive(Module, Debug)]
pub struct Rotary {
    frequencies: Vec<f64>,
    /// Replaces `frequencies` in long passes.
    #[module(skip)]
    long: Option<LongRotation>,
    magnitude: f64,
    interleaved: bool,
    values: bool,
}

impl Rotary {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &RotaryConfig, shape: &PositionShape) -> Self {
        let rotated = config.rotated_width(shape.d_head);
        let (frequencies, magnitude) = config.frequencies(rotated);
        Self {
            frequencies,
            long: config.scaling.long(config.theta, rotated),
            magnitude,
            interleaved: config.pairing == Pairing::Interleaved,
            values: config.rotate_values,
        }
    }

    /// Returns the frequencies of a pass over positions up to `end`.
    fn frequencies_of(&self, end: usize) -> &[f64] {
        match &self.long {
            Some(long) if end > long.beyond => &long.frequencies,
            Some(_) | None => &self.frequencies,
        }
    }
}

impl PositionScheme for Rotary {
    fn rotation_changes_after(&self, seen: usize) -> bool {
        self.long.as_ref().is_some_and(|long| long.beyond == seen)
    }

    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let end = span.offset + span.queries;
        let frequencies = self.frequencies_of(end);
        let half = frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for p in span.offset..end {
            for f in frequencies {
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
                keys: None,
                interleaved: self.interleaved,
                values: self.values,
            }),
            ..Prepared::default()
        }
    }
}
