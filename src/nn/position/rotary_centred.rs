//! Rotary positions on a grid by the centres of patches, with rows and columns as numbers between −1 and 1 (Siméoni et al. 2025,
//! DINOv3, section 3.2, and released code): the first half of the pairs of a head is rotated by the row, the second half by the
//! column.
//!
//! ```text
//! c = 2·(n + ½)/N − 1          of row or column n of N
//! angle = 2π·c·theta^(−4i/d_head)      i in 0..d_head/4
//! ```
//!
//! Images of all sizes map to the same square, so that a network can read other image sizes than in training without resampling.
//! Tokens before the patches are not rotated, however many there are. In training the square may be shifted and scaled, by new
//! random numbers in each step that are shared by all images of the step. A text is a grid of one row.

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts};
use super::rotary_2d::head_faults;
use super::{Grid, Kind, PositionScheme, PositionShape, Prepared, Rotation, Span};
use crate::faults::TableFaults;
use crate::kernel::replay;
use crate::nn::pass::Pass;
use crate::rng::{Purpose, Stream};
use burn::module::Module;
use burn::tensor::{Device, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rotary_centred",
    summary: "queries and keys of an image rotated by patch centres between -1 and 1; other tokens are not rotated",
    source: "Siméoni et al. 2025, DINOv3, section 3.2",
    example: "{ kind = \"rotary_centred\", theta = 100.0, rescale = 2.0 }",
};

/// Settings of rotary positions by the centres of patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotaryCentredConfig {
    /// Base of the wavelengths; the shortest wavelength is half of an image's side.
    /// Source: Siméoni et al. 2025, DINOv3, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub theta: f64,
    /// Limit of a random shift of rows and columns in training, drawn for each of them between −shift and shift; no shift when
    /// absent.
    /// Source: Siméoni et al. 2025, DINOv3, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// Limit of a random factor on rows and on columns in training, drawn log-uniformly for each of them between 1/jitter and
    /// jitter; no factor when absent. Source: Siméoni et al. 2025, DINOv3, released code.
    #[schemars(extend("exclusiveMinimum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Limit of a random factor on both rows and columns in training, drawn log-uniformly between 1/rescale and rescale; no
    /// factor when absent. Source: Siméoni et al. 2025, DINOv3, section 3.2.
    #[schemars(extend("exclusiveMinimum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescale: Option<f64>,
}

impl Default for RotaryCentredConfig {
    fn default() -> Self {
        Self {
            theta: 100.0,
            shift: None,
            jitter: None,
            rescale: None,
        }
    }
}

impl PositionFacts for RotaryCentredConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Rotation)
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
        at.positive("theta", self.theta);
        if let Some(shift) = self.shift {
            at.positive("shift", shift);
        }
        for (key, factor) in [("jitter", self.jitter), ("rescale", self.rescale)] {
            if let Some(factor) = factor.filter(|x| !(*x > 1.0 && x.is_finite())) {
                let rule = format!(
                    "{key} = {factor:?} must be a number above 1; remove it for no random factor"
                );
                at.fault(&[key], rule);
            }
        }
        head_faults(
            known,
            "rotary_centred rotates pairs by row and by column",
            at,
        );
    }

    fn text_counterpart(&self) -> Option<Kind> {
        Some(super::rotary::KIND)
    }

    fn skips_prefix_tokens(&self) -> bool {
        true
    }
}

/// Rotates queries and keys by the centres of their patches.
#[derive(Module, Debug)]
pub struct RotaryCentred {
    frequencies: Vec<f64>,
    shift: Option<f64>,
    jitter: Option<f64>,
    rescale: Option<f64>,
    #[module(skip)]
    grid: Option<Grid>,
    columns: usize,
}

/// A random change of rows and columns: `by` is added to them, then the sum is multiplied by `times`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jitter {
    shift: [f64; 2],
    scale: [f64; 2],
}

impl Jitter {
    /// No change.
    const NONE: Self = Self {
        shift: [0.0; 2],
        scale: [1.0; 2],
    };

    fn apply(&self, centre: [f64; 2]) -> [f64; 2] {
        let along = |axis: usize| (centre[axis] + self.shift[axis]) * self.scale[axis];
        [along(0), along(1)]
    }
}

impl RotaryCentred {
    /// Builds the scheme for a model of this shape, whose head width is a multiple of 4.
    pub fn new(config: &RotaryCentredConfig, shape: &PositionShape) -> Self {
        let quarter = shape.d_head / 4;
        let frequency = |i: usize| TAU * config.theta.powf(-(i as f64) / quarter as f64);
        Self {
            frequencies: (0..quarter).map(frequency).collect(),
            shift: config.shift,
            jitter: config.jitter,
            rescale: config.rescale,
            grid: shape.grid,
            columns: shape.context,
        }
    }

    /// Returns row and column of the centre of each position's patch; `None` for a token before the patches.
    fn centres(&self, span: Span) -> impl Iterator<Item = Option<[f64; 2]>> {
        let end = span.offset + span.queries;
        let (sides, tokens) = match self.grid {
            Some(grid) => {
                let sides = [grid.rows, grid.cols];
                (sides, end.saturating_sub(grid.rows * grid.cols))
            }
            None => ([1, self.columns], 0),
        };
        let along = |place: usize, side: usize| 2.0 * (place as f64 + 0.5) / side as f64 - 1.0;
        let [rows, cols] = sides.map(|side| side.max(1));
        (span.offset..end).map(move |position| {
            let patch = position.checked_sub(tokens)?;
            Some([along(patch / cols, rows), along(patch % cols, cols)])
        })
    }

    fn rotation(&self, span: Span, moved: Jitter, device: &Device) -> Rotation {
        let half = 2 * self.frequencies.len();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for centre in self.centres(span) {
            for along in centre.map_or([0.0; 2], |centre| moved.apply(centre)) {
                for frequency in &self.frequencies {
                    let (s, c) = (along * frequency).sin_cos();
                    cos.push(c as f32);
                    sin.push(s as f32);
                }
            }
        }
        let table = |v: Vec<f32>| replay::floats(TensorData::new(v, [span.queries, half]), device);
        Rotation {
            cos: table(cos),
            sin: table(sin),
            keys: None,
            interleaved: false,
            values: false,
        }
    }

    /// Draws the shift and the factors of a step.
    fn draw_jitter(&self, stream: &mut Stream) -> Jitter {
        let mut between = |most: f64| most * (2.0 * f64::from(stream.uniform()) - 1.0);
        let by = self
            .shift
            .map_or([0.0; 2], |most| [between(most), between(most)]);
        let each = self.jitter.map_or(0.0, f64::ln);
        let each = [between(each), between(each)];
        let both = between(self.rescale.map_or(0.0, f64::ln));
        Jitter {
            shift: by,
            scale: each.map(|each| (each + both).exp()),
        }
    }
}

impl PositionScheme for RotaryCentred {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        Prepared {
            rotation: Some(self.rotation(span, Jitter::NONE, device)),
            ..Prepared::default()
        }
    }

    fn random_rotation(&self, span: Span, device: &Device, pass: &Pass) -> Option<Rotation> {
        if [self.shift, self.jitter, self.rescale] == [None; 3] {
            return None;
        }
        let mut stream = pass.stream_of_step(Purpose::Coordinates)?;
        let moved = self.draw_jitter(&mut stream);
        Some(self.rotation(span, moved, device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(grid: Option<Grid>, config: &RotaryCentredConfig) -> RotaryCentred {
        let shape = PositionShape {
            d_model: 8,
            n_heads: 1,
            d_head: 8,
            n_layers: 1,
            context: 4,
            causal: false,
            grid,
            layers_without_attention: Vec::new(),
            layers_sharing_parameters: Vec::new(),
            dropout: 0.0,
        };
        RotaryCentred::new(config, &shape)
    }

    fn grid(rows: usize, cols: usize) -> Option<Grid> {
        Some(Grid {
            rows,
            cols,
            class_token: true,
        })
    }

    #[test]
    fn centres_lie_between_minus_one_and_one_behind_any_number_of_tokens() {
        let usual = RotaryCentredConfig::default();
        let scheme = scheme(grid(2, 4), &usual);
        for tokens in [0, 1, 5] {
            let centres: Vec<_> = scheme.centres(Span::full(tokens + 8)).collect();
            assert_eq!(centres[..tokens], vec![None; tokens]);
            assert_eq!(centres[tokens], Some([-0.5, -0.75]));
            assert_eq!(centres[tokens + 5], Some([0.5, -0.25]));
            assert_eq!(centres[tokens + 7], Some([0.5, 0.75]));
        }
    }

    #[test]
    fn a_text_is_one_row() {
        let scheme = scheme(None, &RotaryCentredConfig::default());
        let centres: Vec<_> = scheme.centres(Span::full(4)).flatten().collect();
        assert_eq!(centres[..2], [[0.0, -0.75], [0.0, -0.25]]);
    }

    #[test]
    fn a_square_is_moved_and_stretched_within_its_bounds() {
        let config = RotaryCentredConfig {
            shift: Some(0.25),
            jitter: Some(1.5),
            rescale: Some(2.0),
            ..RotaryCentredConfig::default()
        };
        let (all, one) = (scheme(grid(2, 2), &config), |rescale| {
            let config = RotaryCentredConfig {
                rescale,
                ..RotaryCentredConfig::default()
            };
            scheme(grid(2, 2), &config)
        });
        let mut seen = Vec::new();
        for step in 0..200 {
            let stream = || Stream::new(1, Purpose::Coordinates, (step, 0, 0));
            let moved = all.draw_jitter(&mut stream());
            assert_eq!(moved, all.draw_jitter(&mut stream()));
            assert!(moved.shift.iter().all(|by| by.abs() <= 0.25), "{moved:?}");
            let bounds = 1.0 / 3.0 - 1e-9..=3.0 + 1e-9;
            assert!(moved.scale.iter().all(|x| bounds.contains(x)), "{moved:?}");
            let same = one(Some(2.0)).draw_jitter(&mut stream());
            assert!(same.shift == [0.0; 2] && same.scale[0] == same.scale[1]);
            assert!((0.5 - 1e-9..=2.0 + 1e-9).contains(&same.scale[0]));
            seen.push(same.scale[0]);
            assert_eq!(one(None).draw_jitter(&mut stream()), Jitter::NONE);
        }
        let larger = seen.iter().filter(|x| **x > 1.0).count();
        assert!((60..140).contains(&larger), "{larger}");
    }
}
