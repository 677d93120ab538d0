//! Rotary positions on a grid: the first half of the pairs of a head is rotated by the column, the second half by the row, with
//! θ_i = theta^(−4i/d_head) in both (Heo et al. 2024, "Rotary position embedding for vision transformer", section 3.2, axial
//! frequencies; Fang et al. 2023, EVA-02). A class token is not rotated. A text is a grid of one row.

use super::facts::{ActsOn, HEAD_KEYS, HeadEffect, KnownSizes, PositionFacts};
use super::{Grid, Kind, PositionScheme, PositionShape, Prepared, Rotation, Span};
use crate::faults::TableFaults;
use crate::kernel::replay;
use burn::module::Module;
use burn::tensor::{Device, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rotary_2d",
    summary: "queries and keys of an image rotated by column and by row, half of each head by each",
    source: "Heo et al. 2024, section 3.2 (axial)",
    example: "{ kind = \"rotary_2d\", theta = 100.0 }",
};

/// Settings of rotary positions on a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rotary2dConfig {
    /// Base of the wavelengths, smaller than for texts since an image has fewer rows than a text has tokens.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub theta: f64,
}

impl Default for Rotary2dConfig {
    fn default() -> Self {
        Self { theta: 100.0 }
    }
}

impl PositionFacts for Rotary2dConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Rotation)
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
        at.positive("theta", self.theta);
        head_faults(known, "rotary_2d rotates pairs by column and by row", at);
    }

    fn text_counterpart(&self) -> Option<Kind> {
        Some(super::rotary::KIND)
    }
}

/// Reports heads whose width cannot be split into pairs for rows and as many for columns; `turns` describes the scheme.
pub(super) fn head_faults(known: &KnownSizes, turns: &str, at: &mut TableFaults) {
    if let Some(head) = known.d_head.filter(|head| !head.is_multiple_of(4)) {
        let rule = format!("{turns}, but a head of {head} elements is not a multiple of 4");
        at.fault(&HEAD_KEYS, rule);
    }
}

/// Rotates queries and keys by column and row.
#[derive(Module, Debug)]
pub struct Rotary2d {
    frequencies: Vec<f64>,
    #[module(skip)]
    grid: Option<Grid>,
}

impl Rotary2d {
    /// Builds the scheme for a model of this shape, whose head width is a multiple of 4.
    pub fn new(config: &Rotary2dConfig, shape: &PositionShape) -> Self {
        let quarter = shape.d_head / 4;
        let frequency = |i: usize| config.theta.powf(-(i as f64) / quarter as f64);
        Self {
            frequencies: (0..quarter).map(frequency).collect(),
            grid: shape.grid,
        }
    }

    /// Returns column and row of a position; `None` for a class token.
    fn grid_position(&self, position: usize) -> Option<[usize; 2]> {
        let Some(grid) = self.grid else {
            return Some([position, 0]);
        };
        let patch = position.checked_sub(usize::from(grid.class_token))?;
        Some([patch % grid.cols, patch / grid.cols])
    }
}

impl PositionScheme for Rotary2d {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let half = 2 * self.frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for position in span.offset..span.offset + span.queries {
            for along in self.grid_position(position).unwrap_or_default() {
                for frequency in &self.frequencies {
                    let (s, c) = (along as f64 * frequency).sin_cos();
                    cos.push(c as f32);
                    sin.push(s as f32);
                }
            }
        }
        let table = |v: Vec<f32>| replay::floats(TensorData::new(v, [span.queries, half]), device);
        Prepared {
            rotation: Some(Rotation {
                cos: table(cos),
                sin: table(sin),
                keys: None,
                interleaved: true,
                values: false,
            }),
            ..Prepared::default()
        }
    }
}
