//! Relative position bias: a learned scalar for each head and bucket of distances, shared by all layers
//! (Raffel et al. 2020, T5, section 2.1).
//!
//! Half of the buckets hold one distance each; the others grow logarithmically up to `max_distance`. In a bidirectional model
//! each direction has half of the buckets.

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts};
use super::{Kind, PositionScheme, PositionShape, Prepared, ScoreBias, Span};
use crate::faults::{MAX_POSITIONS, MAX_WIDTH, TableFaults};
use crate::kernel::{self, replay};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "relative_bias",
    summary: "a learned scalar for each head and bucket of distances, added to the scores",
    source: "Raffel et al. 2020, section 2.1",
    example: "{ kind = \"relative_bias\", buckets = 32, max_distance = 128 }",
};

/// Settings of bucketed biases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelativeBiasConfig {
    /// Number of buckets. Source: Raffel et al. 2020, section 2.1.
    pub buckets: usize,
    /// Distance from which on all distances share the last bucket. Source: Raffel et al. 2020, section 2.1.
    pub max_distance: usize,
}

impl Default for RelativeBiasConfig {
    fn default() -> Self {
        Self {
            buckets: 32,
            max_distance: 128,
        }
    }
}

impl PositionFacts for RelativeBiasConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Bias)
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        let (buckets, most, half) = (self.buckets, self.max_distance, self.buckets / 2);
        if at.count("buckets", buckets, MAX_WIDTH) && buckets < 2 {
            at.fault(&["buckets"], "buckets = 1 must be 2 or more");
        } else if most <= half || most > MAX_POSITIONS {
            let rule = format!(
                "max_distance = {most} is not between {half}, half of the buckets, and {MAX_POSITIONS}"
            );
            at.fault(&["max_distance", "buckets"], rule);
        }
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }
}

/// Roles of the parameters of [`RelativeBias`].
pub const ROLES: Roles = Roles::new("RelativeBias", &[("table", TABLE)]);

/// Adds biases by bucketed distance to the scores.
#[derive(Module, Debug)]
pub struct RelativeBias {
    /// `[buckets, heads]`.
    pub table: Param<Tensor<2>>,
    buckets: usize,
    max_distance: usize,
    causal: bool,
}

impl RelativeBias {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &RelativeBiasConfig, shape: &PositionShape, init: &Init) -> Self {
        Self {
            table: {
                let role = MatrixRole::ScoreBias {
                    d_model: shape.d_model,
                };
                init.table_of(config.buckets, shape.n_heads, role)
            },
            buckets: config.buckets,
            max_distance: config.max_distance,
            causal: shape.causal,
        }
    }
}

/// Returns the bucket of a key at `relative` = key − query positions.
pub fn bucket(relative: i64, buckets: usize, max_distance: usize, causal: bool) -> usize {
    let (base, buckets, distance) = if causal {
        (0, buckets, (-relative).max(0) as usize)
    } else {
        let half = buckets / 2;
        let base = if relative > 0 { half } else { 0 };
        (base, half, relative.unsigned_abs() as usize)
    };
    let exact = buckets / 2;
    if distance < exact {
        return base + distance;
    }
    let log = (distance as f64 / exact as f64).ln() / (max_distance as f64 / exact as f64).ln();
    let wide = exact + (log * (buckets - exact) as f64) as usize;
    base + wide.min(buckets - 1)
}

impl PositionScheme for RelativeBias {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let distances = span.distances();
        let of = |relative| bucket(relative, self.buckets, self.max_distance, self.causal) as i32;
        let ids: Vec<i32> = (0..distances)
            .map(|diagonal| of(span.distance(diagonal)))
            .collect();
        let ids = replay::integers::<2>(TensorData::new(ids, [1, distances]), device);
        let bias = kernel::embedding(self.table.val(), ids).squeeze_dim::<2>(0);
        Prepared {
            score_bias: ScoreBias::ByDistance(bias.transpose()),
            ..Prepared::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    /// Values of HF's `_relative_position_bucket` with 32 buckets and a maximum distance of 128.
    #[test]
    fn buckets_of_the_reference() {
        let causal: Vec<usize> = [0, -1, -15, -16, -17, -31, -64, -127, -128, -1000, 3]
            .map(|r| bucket(r, 32, 128, true))
            .to_vec();
        assert_eq!(causal, [0, 1, 15, 16, 16, 21, 26, 31, 31, 31, 0]);
        let both: Vec<usize> = [0, -1, -7, -8, -127, 1, 7, 8, 127, 500]
            .map(|r| bucket(r, 32, 128, false))
            .to_vec();
        assert_eq!(both, [0, 1, 7, 8, 15, 17, 23, 24, 31, 31]);
    }
}
