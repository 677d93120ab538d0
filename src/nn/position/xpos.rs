//! Extrapolatable positions: rotary positions whose scores decay with distance (Sun et al. 2022, xPos, section 2.1; torchscale,
//! x-transformers' `rotary_xpos`).
//!
//! Pair i of a query at m is rotated by mθ_i and multiplied by ζ_i^(m/s), that of a key at n by ζ_i^(−n/s), so that a score
//! contains ζ_i^((m−n)/s): the faster a pair rotates, the sooner it fades. ζ_i = (2i/r + 0.4)/1.4 for r rotated elements; s is
//! `scale_base`. In a stack that reads both ways the products with later keys would grow, so the scheme is only for decoders.

use super::facts::{ActsOn, HEAD_KEYS, HeadEffect, KnownSizes, PositionFacts};
use super::rotary::{Pairing, RotaryConfig};
use super::{Kind, PositionScheme, PositionShape, Prepared, Rotation, Span};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::replay;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "xpos",
    summary: "queries and keys rotated by their position, with scores that fade with distance",
    source: "Sun et al. 2022, section 2.1",
    example: "{ kind = \"xpos\", theta = 10000.0, scale_base = 512 }",
};

/// Settings of rotary positions that fade (xPos).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct XposConfig {
    /// Base of the wavelengths. Source: Su et al. 2021, section 3.2.2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub theta: f64,
    /// Distance over which a pair fades by its ζ. Source: Sun et al. 2022, released code.
    pub scale_base: usize,
    /// Which elements of a head form a pair.
    pub pairing: Pairing,
}

impl Default for XposConfig {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            scale_base: 512,
            pairing: Pairing::Interleaved,
        }
    }
}

/// Positions may reach this many times `scale_base`, so that factors stay within the range of 32-bit floats.
const MAX_SCALE_MULTIPLE: usize = 60;

impl XposConfig {
    /// Returns the first position whose factor would leave that range.
    fn first_unsupported(&self) -> usize {
        self.scale_base.saturating_mul(MAX_SCALE_MULTIPLE)
    }

    /// Returns the settings of plain rotary positions with the same wavelengths.
    fn rotary(&self) -> RotaryConfig {
        RotaryConfig {
            theta: self.theta,
            pairing: self.pairing,
            ..RotaryConfig::default()
        }
    }
}

impl PositionFacts for XposConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::FadingRotation)
    }

    fn causal_only(&self) -> bool {
        true
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
        at.positive("theta", self.theta);
        if !at.count("scale_base", self.scale_base, MAX_POSITIONS) {
            return;
        }
        if let Some(context) = known
            .context
            .filter(|context| *context > self.first_unsupported())
        {
            let rule = format!(
                "scale_base = {} covers {} positions, but texts have {context}; make it {} or more",
                self.scale_base,
                self.first_unsupported(),
                context.div_ceil(MAX_SCALE_MULTIPLE)
            );
            at.fault(&["scale_base", "data.context"], rule);
        }
        if let Some(head) = known
            .d_head
            .filter(|head| *head < 2 || !head.is_multiple_of(2))
        {
            let rule = format!(
                "xpos rotates pairs of elements, but a head has {head}; make the width of a head even"
            );
            at.fault(&HEAD_KEYS, rule);
        }
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::rotary_2d::KIND)
    }
}

/// Rotates queries and keys, and lets their products fade with distance.
#[derive(Module, Debug)]
pub struct Xpos {
    frequencies: Vec<f64>,
    /// ln ζ_i / s.
    fading: Vec<f64>,
    end: usize,
    interleaved: bool,
}

impl Xpos {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &XposConfig, shape: &PositionShape) -> Self {
        let rotary = config.rotary();
        let rotated = rotary.rotated_width(shape.d_head);
        let (frequencies, _) = rotary.frequencies(rotated);
        let zeta = |pair: usize| (2.0 * pair as f64 / rotated as f64 + 0.4) / 1.4;
        let fading = (0..frequencies.len()).map(|pair| zeta(pair).ln() / config.scale_base as f64);
        Self {
            fading: fading.collect(),
            frequencies,
            end: config.first_unsupported(),
            interleaved: config.pairing == Pairing::Interleaved,
        }
    }

    /// Returns cosines and sines `[positions, pairs]` for the positions of a span's queries, multiplied by ζ^(sign·position/s).
    fn tables(&self, span: Span, sign: f64, device: &Device) -> [Tensor<2>; 2] {
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for position in (span.offset..).take(span.queries).map(|p| p as f64) {
            for (frequency, fading) in self.frequencies.iter().zip(&self.fading) {
                let (s, c) = (position * frequency).sin_cos();
                let factor = (sign * position * fading).exp();
                cos.push((c * factor) as f32);
                sin.push((s * factor) as f32);
            }
        }
        let shape = [span.queries, self.frequencies.len()];
        [cos, sin].map(|table| replay::floats(TensorData::new(table, shape), device))
    }
}

impl PositionScheme for Xpos {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let [cos, sin] = self.tables(span, 1.0, device);
        Prepared {
            rotation: Some(Rotation {
                cos,
                sin,
                keys: Some(self.tables(span, -1.0, device)),
                interleaved: self.interleaved,
                values: false,
            }),
            ..Prepared::default()
        }
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.end)
    }
}
