//! Attention with linear biases: score − slope_h·|i − j| (Press et al. 2022, section 3).
//!
//! Slopes are the geometric sequence 2^(−max/h), 2^(−2max/h) … If the number of heads h is not a power of two, the slopes are the
//! sequence for the next lower power, followed by every second term of the sequence for the next higher one (released code).

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts};
use super::{Kind, PositionScheme, PositionShape, Prepared, ScoreBias, Span};
use crate::faults::TableFaults;
use crate::kernel::replay;
use burn::module::Module;
use burn::tensor::{Device, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "alibi",
    summary: "scores lowered in proportion to distance, a fixed slope for each head",
    source: "Press et al. 2022",
    example: "{ kind = \"alibi\" }",
};

/// Settings of linear biases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlibiConfig {
    /// Exponent of the last head's slope, which is 2^−max_exponent. Source: Press et al. 2022, section 3.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_exponent: f64,
    /// Whether the bias is multiplied by 1/√d_head together with the scores, as in Falcon.
    pub scaled: bool,
}

impl Default for AlibiConfig {
    fn default() -> Self {
        Self {
            max_exponent: 8.0,
            scaled: false,
        }
    }
}

impl PositionFacts for AlibiConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Bias)
    }

    fn allowed_per_block(&self) -> bool {
        true
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        at.positive("max_exponent", self.max_exponent);
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }
}

/// Adds biases by distance to the scores.
#[derive(Module, Debug)]
pub struct Alibi {
    slopes: Vec<f64>,
}

impl Alibi {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &AlibiConfig, shape: &PositionShape) -> Self {
        let factor = if config.scaled {
            1.0 / (shape.d_head as f64).sqrt()
        } else {
            1.0
        };
        Self {
            slopes: slopes(shape.n_heads, config.max_exponent)
                .into_iter()
                .map(|s| s * factor)
                .collect(),
        }
    }
}

/// Returns the slope of each of `n_heads` heads.
pub fn slopes(n_heads: usize, max_exponent: f64) -> Vec<f64> {
    let geometric = |n: usize| -> Vec<f64> {
        (1..=n)
            .map(|i| 2f64.powf(-max_exponent * i as f64 / n as f64))
            .collect()
    };
    let below = 1 << n_heads.ilog2();
    let mut slopes = geometric(below);
    slopes.extend(
        geometric(2 * below)
            .into_iter()
            .step_by(2)
            .take(n_heads - below),
    );
    slopes
}

impl PositionScheme for Alibi {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let heads = self.slopes.len();
        let distances = span.distances();
        let biases = self.slopes.iter().flat_map(|slope| {
            (0..distances).map(move |diagonal| {
                -(slope * span.distance(diagonal).unsigned_abs() as f64) as f32
            })
        });
        let data = TensorData::new(biases.collect::<Vec<f32>>(), [heads, distances]);
        Prepared {
            score_bias: ScoreBias::ByDistance(replay::floats(data, device)),
            ..Prepared::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Alibi, Device, PositionScheme, ScoreBias, Span, slopes};

    #[test]
    fn every_score_is_lowered_by_its_distance() {
        let scheme = Alibi {
            slopes: vec![0.5, 0.25],
        };
        for (queries, keys, offset) in [(4, 4, 0), (1, 6, 5), (2, 7, 5)] {
            let span = Span {
                queries,
                keys,
                offset,
            };
            let ScoreBias::ByDistance(bias) = scheme.prepare(span, &Device::flex()).score_bias
            else {
                panic!("linear biases go by distance")
            };
            let bias: Vec<f32> = bias.into_data().iter::<f32>().collect();
            for (head, slope) in scheme.slopes.iter().enumerate() {
                for (i, j) in (0..queries).flat_map(|i| (0..keys).map(move |j| (i, j))) {
                    let at = head * (queries + keys - 1) + j + queries - 1 - i;
                    let distance = (offset + i).abs_diff(j) as f64;
                    assert_eq!(f64::from(bias[at]), -slope * distance, "{span:?} {i} {j}");
                }
            }
        }
    }

    #[test]
    fn slopes_of_the_paper() {
        assert_eq!(slopes(8, 8.0)[0], 0.5);
        assert_eq!(slopes(8, 8.0)[7], 1.0 / 256.0);
        // 12 heads: the 8 slopes of a power of two, then every second of the 16.
        let twelve = slopes(12, 8.0);
        assert_eq!(twelve.len(), 12);
        assert_eq!(twelve[8], 2f64.powf(-0.5));
        assert_eq!(twelve[9], 2f64.powf(-1.5));
        assert_eq!(slopes(1, 8.0), [2f64.powi(-8)]);
    }
}
