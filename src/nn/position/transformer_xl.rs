//! Transformer-XL's relative positions (Dai et al. 2019, section 3.3): scores depend on content and on distance, each with a
//! learned vector added to the query,
//!
//! ```text
//! score(i, j) = ((q_i + u)·k_j + (q_i + v)·W_kR R(i − j)) / √d_head
//! ```
//!
//! R consists of sines and cosines, [sin(pω_0) … , cos(pω_0) …] with ω_n = 10000^(−2n/d_model); W_kR is a matrix of each layer. A
//! model that reads both ways has vectors for both signs of the distance. It may add (q_i + s)·e_own or (q_i + s)·e_other,
//! depending on whether a key is in the query's own segment (Yang et al. 2019, XLNet). R is computed for the distances of a pass,
//! once for all layers, with one dropout; each layer projects it once. In decoding a layer keeps its projections for later
//! tokens.

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts, last_span};
use super::{
    AttentionView, Kind, PositionScheme, PositionShape, Relative, SegmentVectors, Span, per_layer,
    split_heads,
};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{DistanceRows, DistanceTable, replay};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{BIAS, Roles, TABLE};
use crate::one_table::is_usual;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "transformer_xl",
    summary: "projected sines and cosines of the distance, with query biases for content and for distance",
    source: "Dai et al. 2019, section 3.3",
    example: "{ kind = \"transformer_xl\", untie_r = false }",
};

/// Settings of Transformer-XL's positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerXlConfig {
    /// Whether each layer has its own u and v; all layers share them otherwise.
    /// Source: Dai et al. 2019, released code.
    pub untie_r: bool,
    /// Maximum distance: keys farther away are treated as if at this distance; no limit when absent.
    /// Source: Dai et al. 2019, released code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamp_len: Option<usize>,
    /// `clamp_len` in evaluation and decoding, whose memory may be longer than in training; `clamp_len` itself when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamp_len_at_evaluation: Option<usize>,
    /// Number of segments that an encoder's scores distinguish: 3 in XLNet, for two texts and the final token; none when 0.
    /// Source: Yang et al. 2019, section 2.5.
    #[schemars(range(max = MAX_SEGMENTS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub segments: usize,
}

const MAX_SEGMENTS: usize = 8;

impl PositionFacts for TransformerXlConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Vectors)
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        for (key, most) in [
            ("clamp_len", self.clamp_len),
            ("clamp_len_at_evaluation", self.clamp_len_at_evaluation),
        ] {
            if let Some(most) = most {
                at.count(key, most, MAX_POSITIONS);
            }
        }
        let told = self.segments;
        if told == 1 || told > MAX_SEGMENTS {
            let rule = format!("segments = {told} must be 0 or from 2 to {MAX_SEGMENTS}");
            at.fault(&["segments"], rule);
        }
        if self.clamp_len.is_some() && self.clamp_len == self.clamp_len_at_evaluation {
            let rule = "clamp_len_at_evaluation has no effect: it equals clamp_len; remove it";
            at.fault(&["clamp_len_at_evaluation", "clamp_len"], rule);
        }
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }

    fn products(&self, shape: &PositionShape, [queries, sources, keys]: [usize; 3]) -> u128 {
        let span = last_span(queries, sources);
        let rows = distance_range(span, shape.causal, self.clamp_len).rows() as u128;
        let met = rows.min(keys as u128);
        let told = match keys as u128 * shape.n_heads as u128 * self.segments as u128 {
            0 => 0,
            columns => queries as u128 * (shape.width() + columns),
        };
        (rows * shape.d_model as u128 + queries as u128 * met) * shape.width() + told
    }

    fn segments(&self) -> usize {
        self.segments
    }

    fn activations(&self, shape: &PositionShape, keys: usize) -> u128 {
        let rows = distance_range(Span::full(keys), shape.causal, self.clamp_len).rows() as u128;
        let layers = shape.attending_layers() as u128;
        rows * (shape.d_model as u128 + layers * shape.width())
    }
}

/// The range of distances from keys to queries for which vectors are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DistanceRange {
    /// Negative if a key comes after its query.
    nearest: i64,
    farthest: i64,
}

impl DistanceRange {
    fn rows(self) -> usize {
        (self.farthest - self.nearest + 1) as usize
    }

    /// Returns the row for a key that is `distance` positions after its query.
    fn row(self, distance: i64) -> usize {
        ((-distance).clamp(self.nearest, self.farthest) - self.nearest) as usize
    }
}

fn distance_range(span: Span, causal: bool, clamp_len: Option<usize>) -> DistanceRange {
    let most = clamp_len.map_or(i64::MAX, |most| most as i64);
    let [first, last] = [span.distances().saturating_sub(1), 0].map(|d| -span.distance(d));
    let nearest = if causal { 0 } else { first.max(-most) };
    DistanceRange {
        nearest,
        farthest: last.min(most).max(nearest),
    }
}

/// Roles of the parameters of [`TransformerXl`]; those of its projections are declared by linear maps.
pub const ROLES: Roles = Roles::new(
    "TransformerXl",
    &[
        ("content_bias", BIAS),
        ("distance_bias", BIAS),
        ("segment_bias", BIAS),
        ("segment_vectors", TABLE),
    ],
);

/// Sines and cosines of distances, projected by each layer.
#[derive(Module, Debug)]
pub struct TransformerXl {
    /// W_kR of each layer, `[heads·d_head, d_model]`; `None` for a layer without attention.
    pub projections: Vec<Option<Linear>>,
    /// u, `[heads, d_head]`: one for all layers, or one for each.
    pub content_bias: Vec<Option<Param<Tensor<2>>>>,
    /// v, likewise.
    pub distance_bias: Vec<Option<Param<Tensor<2>>>>,
    /// s, likewise, if segments are distinguished.
    pub segment_bias: Vec<Option<Param<Tensor<2>>>>,
    /// For each layer, e_own and then e_other of all heads, `[2·heads, d_head]`.
    pub segment_vectors: Vec<Option<Param<Tensor<2>>>>,
    segments: usize,
    untied: bool,
    clamp_len: Option<usize>,
    clamp_len_at_evaluation: Option<usize>,
    causal: bool,
    d_model: usize,
    heads: usize,
    dropout: f64,
}

impl TransformerXl {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &TransformerXlConfig, shape: &PositionShape, init: &Init) -> Self {
        let (heads, width) = (shape.n_heads, shape.n_heads * shape.d_head);
        let of = init.part("projections");
        let projections = per_layer(shape, || {
            Linear::new(shape.d_model, width, false, MatrixRole::Inner, &of)
        });
        let bias = |name: &str| {
            let init = init.part(name);
            let bias = || init.table(heads, shape.d_head);
            match config.untie_r {
                true => per_layer(shape, bias),
                false => vec![Some(bias())],
            }
        };
        let (tells, of) = (config.segments > 0, init.part("segments"));
        let vectors = || per_layer(shape, || of.table(2 * heads, shape.d_head));
        Self {
            projections,
            content_bias: bias("u"),
            distance_bias: bias("v"),
            segment_bias: if tells { bias("s") } else { Vec::new() },
            segment_vectors: if tells { vectors() } else { Vec::new() },
            segments: config.segments,
            untied: config.untie_r,
            clamp_len: config.clamp_len,
            clamp_len_at_evaluation: config.clamp_len_at_evaluation,
            causal: shape.causal,
            d_model: shape.d_model,
            heads,
            dropout: shape.dropout,
        }
    }

    /// Returns the distances of a pass.
    fn reach(&self, span: Span, pass: &Pass) -> DistanceRange {
        let at_evaluation = self.clamp_len_at_evaluation.filter(|_| !pass.is_training());
        distance_range(span, self.causal, at_evaluation.or(self.clamp_len))
    }

    /// Returns sines and cosines of the distances of a reach, `[rows, d_model]`.
    fn distance_encodings(&self, reach: DistanceRange, device: &Device) -> Tensor<2> {
        let values = table(reach.nearest, reach.rows(), self.d_model);
        let values = TensorData::new(values, [reach.rows(), self.d_model]);
        replay::floats(values, device)
    }

    /// Projects vectors of distances `[rows, d_model]` for a layer's queries, `[heads, rows, d_head]`.
    fn project(&self, projection: &Linear, vectors: Tensor<2>) -> Tensor<3> {
        let projected = projection.forward(vectors.unsqueeze_dim(0)).squeeze_dim(0);
        split_heads(projected, self.heads)
    }

    /// Returns the projected vectors that a layer keeps while it decodes a text; if one is missing, they are computed for the
    /// next power of two of distances.
    fn kept(
        &self,
        projection: &Linear,
        reach: DistanceRange,
        attending: &AttentionView,
    ) -> Tensor<3> {
        let kept = attending.cached_table.and_then(Cell::take);
        let kept = kept.filter(|table| table.dims()[1] >= reach.rows());
        let table = kept.unwrap_or_else(|| {
            let ahead = DistanceRange {
                farthest: reach.rows().next_power_of_two() as i64 - 1,
                ..reach
            };
            self.project(projection, self.distance_encodings(ahead, attending.device))
        });
        if let Some(kept) = attending.cached_table {
            kept.set(Some(table.clone()));
        }
        table
    }

    fn bias(&self, biases: &[Option<Param<Tensor<2>>>], layer: usize) -> Option<Tensor<2>> {
        let number = if self.untied { layer } else { 0 };
        biases.get(number)?.as_ref().map(Param::val)
    }
}

/// Returns sines and cosines of `rows` distances from `first` on, row-major `[rows, d]`: all sines, then all cosines.
pub fn table(first: i64, rows: usize, d: usize) -> Vec<f32> {
    let sines = d.div_ceil(2);
    let frequency = |i: usize| 10_000f64.powf(-((2 * i) as f64) / d as f64);
    let frequencies: Vec<f64> = (0..sines).map(frequency).collect();
    let mut values = Vec::with_capacity(rows * d);
    for place in (first..).take(rows) {
        let angle = |frequency: &f64| place as f64 * frequency;
        values.extend(frequencies.iter().map(|f| angle(f).sin() as f32));
        let cosines = frequencies.iter().take(d - sines);
        values.extend(cosines.map(|f| angle(f).cos() as f32));
    }
    values
}

impl PositionScheme for TransformerXl {
    fn vectors(&self, span: Span, device: &Device, pass: &Pass) -> Option<Tensor<2>> {
        // A step of decoding uses the projected vectors of the steps before it.
        if self.causal && span.queries == 1 && !pass.is_training() {
            return None;
        }
        let vectors = self.distance_encodings(self.reach(span, pass), device);
        Some(pass.dropout_shared(vectors, "distances", self.dropout))
    }

    fn relative(&self, attending: &AttentionView) -> Option<Relative> {
        let projection = self.projections.get(attending.layer)?.as_ref()?;
        let reach = self.reach(attending.span, attending.pass);
        let table = match &attending.prepared.vectors {
            // A layer that keeps fewer keys than others needs only the nearest distances.
            Some(vectors) => self.project(projection, vectors.clone().narrow(0, 0, reach.rows())),
            None => self.kept(projection, reach, attending),
        };
        Some(Relative {
            content_shift: self.bias(&self.content_bias, attending.layer),
            distance_shift: self.bias(&self.distance_bias, attending.layer),
            queries: Some(DistanceTable {
                table,
                rows: DistanceRows::new(attending.span, |distance| reach.row(distance)),
            }),
            ..Relative::default()
        })
    }

    fn segments(&self) -> usize {
        self.segments
    }

    fn segment_vectors(&self, layer: usize) -> Option<SegmentVectors> {
        let vectors = self.segment_vectors.get(layer)?.as_ref()?;
        Some(SegmentVectors {
            shift: self.bias(&self.segment_bias, layer)?,
            vectors: vectors.val(),
        })
    }
}

#[cfg(test)]
mod tests;
