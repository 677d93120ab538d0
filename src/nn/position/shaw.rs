//! Relative positions with clipped distances (Shaw et al. 2018, section 3.2): vectors of distances −k … k, separate in each
//! layer, are added to keys and to values,
//!
//! ```text
//! score(i, j) = q_i·(k_j + keys[j − i]) / √d_head        z_i = Σ_j weight(i, j)·(v_j + values[j − i])
//! ```
//!
//! A query of a causal model sees no key after it, so its tables have rows only for −k … 0. With `content_bias` and
//! `distance_bias`, tables for each head and no vectors for values, this is the attention with learned distances that
//! Transformer-XL is compared with (attn_type 1 of Dai et al.'s released code): (q_i + u)·k_j + q_i·keys[j − i] + b[j − i].

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts};
use super::{
    AttentionView, Kind, PositionScheme, PositionShape, Relative, ScoreBias, per_layer, split_heads,
};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{DistanceRows, DistanceTable, replay};
use crate::nn::init::Init;
use crate::nn::role::{BIAS, Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "shaw",
    summary: "learned vectors of clipped distances, added to keys and values in every layer",
    source: "Shaw et al. 2018, section 3.2",
    example: "{ kind = \"shaw\", clip = 16, shared_heads = true, values = true }",
};

/// Settings of relative positions with clipped distances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShawConfig {
    /// k, the maximum distance: keys farther away are treated as if at distance k. Source: Shaw et al. 2018, section 3.2.
    pub clip: usize,
    /// Whether all heads of a layer share their tables. Source: Shaw et al. 2018, section 3.3.
    pub shared_heads: bool,
    /// Whether vectors of distances are added to values, too.
    pub values: bool,
    /// Whether each head of a layer adds a learned vector u to the queries in their product with keys.
    pub content_bias: bool,
    /// Whether each head of a layer adds a learned number for each distance to the products of queries and keys. It is scaled
    /// like these, and added after a `softcap`.
    pub distance_bias: bool,
}

impl Default for ShawConfig {
    fn default() -> Self {
        Self {
            clip: 16,
            shared_heads: true,
            values: true,
            content_bias: false,
            distance_bias: false,
        }
    }
}

impl ShawConfig {
    /// Returns the number of distances that are distinguished.
    fn rows(&self, causal: bool) -> usize {
        match causal {
            true => self.clip + 1,
            false => 2 * self.clip + 1,
        }
    }
}

impl PositionFacts for ShawConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Vectors)
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        at.count("clip", self.clip, MAX_POSITIONS);
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }

    fn products(&self, shape: &PositionShape, [queries, _, keys]: [usize; 3]) -> u128 {
        let vectors = keys.min(self.rows(shape.causal)) as u128;
        let tables = if self.values { 2 } else { 1 };
        tables * queries as u128 * vectors * shape.width()
    }
}

/// Roles of the parameters of [`Shaw`].
pub const ROLES: Roles = Roles::new(
    "Shaw",
    &[
        ("keys", TABLE),
        ("values", TABLE),
        ("content_bias", BIAS),
        ("distance_bias", TABLE),
    ],
);

/// Adds vectors by clipped distance to keys and values.
#[derive(Module, Debug)]
pub struct Shaw {
    /// For each layer `[rows, d_head]`, or `[rows, heads·d_head]` if heads have separate tables; `None` for a layer without
    /// attention. Row 0 is for distance −k.
    pub keys: Vec<Option<Param<Tensor<2>>>>,
    /// Likewise, added to values.
    pub values: Vec<Option<Param<Tensor<2>>>>,
    /// u of each layer, `[heads, d_head]`.
    pub content_bias: Vec<Option<Param<Tensor<2>>>>,
    /// b of each layer, `[rows, heads]`.
    pub distance_bias: Vec<Option<Param<Tensor<2>>>>,
    clip: usize,
    rows: usize,
    tables: usize,
    d_head: usize,
}

impl Shaw {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &ShawConfig, shape: &PositionShape, init: &Init) -> Self {
        let rows = config.rows(shape.causal);
        let tables = if config.shared_heads {
            1
        } else {
            shape.n_heads
        };
        let table = |name: &str, given: bool, [rows, d]: [usize; 2]| {
            let init = init.part(name);
            match given {
                true => per_layer(shape, || init.table(rows, d)),
                false => Vec::new(),
            }
        };
        let vectors = [rows, tables * shape.d_head];
        Self {
            keys: table("keys", true, vectors),
            values: table("values", config.values, vectors),
            content_bias: table("u", config.content_bias, [shape.n_heads, shape.d_head]),
            distance_bias: table("b", config.distance_bias, [rows, shape.n_heads]),
            clip: config.clip,
            rows,
            tables,
            d_head: shape.d_head,
        }
    }

    /// Returns the row for a key that is `distance` positions after its query.
    fn table_row(&self, distance: i64) -> usize {
        let from_first = distance.saturating_add(self.clip as i64).max(0);
        (from_first as usize).min(self.rows - 1)
    }
}

/// Returns the parameter of a layer, if it has one.
fn layer_parameter(parameters: &[Option<Param<Tensor<2>>>], layer: usize) -> Option<Tensor<2>> {
    parameters.get(layer)?.as_ref().map(Param::val)
}

impl PositionScheme for Shaw {
    fn score_bias(&self, attending: &AttentionView) -> Option<ScoreBias> {
        let table = layer_parameter(&self.distance_bias, attending.layer)?;
        let span = attending.span;
        let row = |diagonal| self.table_row(span.distance(diagonal)) as i32;
        let rows: Vec<i32> = (0..span.distances()).map(row).collect();
        let rows = TensorData::new(rows, [1, span.distances()]);
        let rows = replay::integers(rows, attending.device);
        let bias = crate::kernel::embedding(table, rows).squeeze_dim::<2>(0);
        // The bias is part of the product of query and key, which is scaled.
        Some(ScoreBias::ByDistance(bias.transpose() * attending.scale))
    }

    fn relative(&self, attending: &AttentionView) -> Option<Relative> {
        let rows = DistanceRows::new(attending.span, |distance| self.table_row(distance));
        let table = |parameters: &[_]| {
            layer_parameter(parameters, attending.layer).map(|table| DistanceTable {
                table: split_heads(table, self.tables),
                rows: rows.clone(),
            })
        };
        Some(Relative {
            content_shift: layer_parameter(&self.content_bias, attending.layer),
            queries: table(&self.keys),
            values: table(&self.values),
            ..Relative::default()
        })
    }
}
