//! Adaptive spans: each head learns how far it looks (Sukhbaatar et al. 2019, section 2.2). The weight of a key at distance x is
//! multiplied by the ramp m_z(x) = min(max((R + z − x)/R, 0), 1), and the weights of a query are normalised again. This equals
//! softmax(score + ln m_z(x)); keys with m = 0 are never computed.
//!
//! z is `max_span` times a share in 0..=1, a learned parameter of each head. A loss adds `span_loss`·mean(z) for each layer, so
//! that a head looks only as far as it gains from it; the mean of z is journalled as `span`, in positions. After each update,
//! shares outside 0..=1 are clamped ([`BOUNDS`]), as in the authors' program. x counts from the query's own position, which has
//! x = 0; the authors' attention excludes the query's own position and counts from the one before it. In a stack that reads both
//! ways a head looks equally far to both sides.
//!
//! The longest span among a layer's heads limits the keys that decoding keeps.

use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionInputs, AttentionShape, Kind};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{self, KeyPattern, Pattern, Query, Span};
use crate::nn::bounds::Bounds;
use crate::nn::init::Init;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::role::{BIAS, Roles};
use crate::nn::state::{LayerState, StateUse};
use crate::one_table::one_table;
use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "adaptive_span",
    summary: "each head learns its attention span; keys beyond it are not computed",
    source: "Sukhbaatar et al. 2019, section 2.2",
    example: "{ kind = \"adaptive_span\", n_heads = 4, max_span = 1024, ramp = 32, span_loss = 2e-6 }",
};

/// Settings of adaptive spans: those of multi-head attention, the range of spans and their loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct AdaptiveSpanConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// The longest span that a head can learn, its own position included.
    /// Source: Sukhbaatar et al. 2019, section 2.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub max_span: usize,
    /// R: positions beyond a span over which weights fall to zero. Source: Sukhbaatar et al. 2019, section 2.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub ramp: usize,
    /// Initial span of each head, as a share of `max_span`.
    pub init_span: f64,
    /// Coefficient of the mean span in the loss, per position. Source: Sukhbaatar et al. 2019, section 2.2.
    #[schemars(range(min = 0))]
    pub span_loss: f64,
}

impl Default for AdaptiveSpanConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            max_span: 1024,
            ramp: 32,
            init_span: 0.0,
            span_loss: 2e-6,
        }
    }
}

one_table!(AdaptiveSpanConfig, heads: MultiHeadConfig, |_| &[]);

/// Roles of the parameters of [`AdaptiveSpan`]: `span` is a bias, since ln m is added to the scores.
pub const ROLES: Roles = Roles::new("AdaptiveSpan", &[("span", BIAS)]);

/// Attention over learned spans, with its parameters.
#[derive(Module, Debug)]
pub struct AdaptiveSpan {
    /// Projections of queries, keys, values and the output.
    pub heads: MultiHead,
    /// The span of each head as a share of `max_span`, `[n_heads]`.
    pub span: Param<Tensor<1>>,
    max_span: usize,
    ramp: usize,
    span_loss: f64,
}

impl AdaptiveSpanConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> AdaptiveSpan {
        AdaptiveSpan {
            heads: MultiHead::new(&self.heads, shape, init),
            span: init.vector(self.heads.n_heads, self.init_span as f32),
            max_span: self.max_span,
            ramp: self.ramp,
            span_loss: self.span_loss,
        }
    }
}

impl AttentionFacts for AdaptiveSpanConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        self.heads = heads;
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            across: false,
            ..Abilities::ALL
        }
    }

    /// Returns the number of keys within the longest possible span; learned spans are shorter.
    fn keys(&self, tokens: usize, causal: bool) -> usize {
        let sides = if causal { 1 } else { 2 };
        let others = self.max_span.saturating_sub(1).saturating_mul(sides);
        let all = self.heads.segments().map_or(tokens, |s| s.keys(tokens));
        all.min(others.saturating_add(1))
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("max_span", self.max_span, MAX_POSITIONS);
        at.count("ramp", self.ramp, MAX_POSITIONS);
        if !(0.0..=1.0).contains(&self.init_span) {
            let rule = format!(
                "init_span = {:?} must be between 0 and 1, as a fraction of max_span",
                self.init_span
            );
            at.fault(&["init_span"], rule);
        }
        if !(self.span_loss >= 0.0 && self.span_loss.is_finite()) {
            let rule = format!("span_loss = {:?} must be at least 0", self.span_loss);
            at.fault(&["span_loss"], rule);
        }
        self.heads.faults(d_model, at)
    }
}

/// Lower limit of the ramps, which keeps their logarithm finite; the ramp of every visible key is larger.
const MIN_RAMP: f64 = 1e-20;

/// The keys within the span and ramp of each head.
#[derive(Debug)]
struct Spans(
    /// For each head, the number of keys that it sees on one side of a query, the query's own position included.
    Vec<usize>,
);

impl Spans {
    fn keys_around(&self, head: usize, positions: Range<usize>, keys: usize) -> Range<usize> {
        let others = self.0[head] - 1;
        let start = positions.start.saturating_sub(others).min(keys);
        start..positions.end.saturating_add(others).min(keys)
    }
}

impl KeyPattern for Spans {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        see(self.keys_around(query.head, query.position..query.position + 1, keys));
    }

    fn keys_of_queries(
        &self,
        [_, head]: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        see(self.keys_around(head, positions, keys));
    }

    fn by_head(&self) -> bool {
        true
    }
}

impl AdaptiveSpan {
    /// Returns z of each head, `[n_heads]`.
    fn spans(&self) -> Tensor<1> {
        self.span.val().clamp(0.0, 1.0) * self.max_span as f64
    }

    /// Returns the number of keys on one side of a query that each head sees: the distances x with m_z(x) > 0.
    fn visible_distances(&self) -> Vec<usize> {
        let spans = kernel::read(kernel::untracked(self.spans()));
        let each = spans.iter::<f32>();
        each.map(|z| {
            let seen = (z + self.ramp as f32).ceil() as usize;
            seen.clamp(1, self.max_span)
        })
        .collect()
    }

    /// Returns how many positions before a query the farthest-looking head sees.
    fn reach_of(&self, seen: &[usize]) -> Option<usize> {
        let own = seen.iter().max().map(|seen| seen - 1);
        own.into_iter().chain(self.heads.reach()).min()
    }

    /// Returns ln m_z of each head and distance, `[n_heads, distances]`, computed in single precision; the pattern masks keys
    /// with m = 0.
    fn ramps(&self, span: Span) -> Tensor<2> {
        let distance = |diagonal| span.distance(diagonal).unsigned_abs() as f32;
        let distances: Vec<f32> = (0..span.distances()).map(distance).collect();
        let spans = self.spans();
        let format = spans.dtype();
        let z: Tensor<2> = kernel::to_f32(spans).unsqueeze_dim(1);
        let x = TensorData::new(distances, [1, span.distances()]);
        let x = Tensor::<2>::from_data(x, (&z.device(), z.dtype()));
        let ramp = (z - x) / self.ramp as f64 + 1.0;
        ramp.clamp(MIN_RAMP, 1.0).log().cast(format)
    }
}

impl Layer for AdaptiveSpan {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        cx.pass
            .add_loss("span", kernel::to_f32(self.spans()).mean(), self.span_loss);
        let seen = self.visible_distances();
        let reach = self.reach_of(&seen);
        let heads = &self.heads;
        heads.forward_reaching(x, cx, reach, |mut attended: AttentionInputs, cx| {
            let [_, _, queries, keys, _] = attended.dims();
            let relations = &mut attended.positional;
            let span = Span {
                queries,
                keys,
                offset: relations.offset,
            };
            let bias = std::mem::take(&mut relations.bias);
            relations.bias = bias.plus(self.ramps(span), span);
            relations.visible.pattern = Some(Pattern::new(Spans(seen)));
            attended.softmax(cx)
        })
    }

    fn reach(&self) -> Option<usize> {
        self.reach_of(&self.visible_distances())
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        self.heads.empty_state(of)
    }
}

/// The range of the shares; an update may move them out of it.
pub const BOUNDS: Bounds = Bounds {
    holder: "AdaptiveSpan",
    field: "span",
    min: 0.0,
    max: 1.0,
};
