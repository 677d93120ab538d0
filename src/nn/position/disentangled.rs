//! Disentangled attention (He et al. 2021, DeBERTa, sections 3.1 and 3.2): queries and keys are multiplied with each other and
//! with vectors of distances,
//!
//! ```text
//! score(i, j) = (q_i·k_j + q_i·K R[δ(i, j)] + k_j·Q R[δ(i, j)]) / √(3·d_head)
//! ```
//!
//! R is one table for the model; K and Q are maps of each layer, either separate ones or those of attention itself. δ(i, j) is
//! i − j, clipped to −k … k − 1 and counted from 0 (DeBERTa); with `buckets`, far distances share logarithmic buckets before that
//! (DeBERTa-v3, released code). Both sums use δ(i, j), as in the released code; the paper prints δ(j, i) in the second. A causal
//! model has no vectors for keys after their query.

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts, last_span};
use super::{
    AttentionView, Kind, PositionScheme, PositionShape, Relative, Span, per_layer, split_heads,
};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{DistanceRows, DistanceTable};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::pass::Pass;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "disentangled",
    summary: "content-to-position and position-to-content scores: queries and keys times projected vectors of distances",
    source: "He et al. 2021, sections 3.1 and 3.2",
    example: "{ kind = \"disentangled\", max_distance = 128, terms = [\"c2p\", \"p2c\"] }",
};

/// Settings of disentangled attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DisentangledConfig {
    /// k, the distance from which on all distances are treated alike; with `buckets`, the distance at which the last bucket
    /// begins.
    /// Source: He et al. 2021, section 3.1.
    pub max_distance: usize,
    /// Number of buckets for each direction: half of them hold one distance each, the others grow logarithmically. One vector for
    /// each distance when absent. Source: He et al. 2021 (DeBERTa v2), released code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<usize>,
    /// The products that are added to that of query and key. Source: He et al. 2021, section 3.1.
    pub terms: Vec<Term>,
    /// Whether vectors of distances are projected by attention's own maps to queries and keys.
    pub shared_projections: bool,
    /// Norm on the vectors of distances.
    pub norm: NormConfig,
}

/// A product of content and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Content to position: queries times vectors of distances.
    C2p,
    /// Position to content: keys times vectors of distances.
    P2c,
}

impl Default for DisentangledConfig {
    fn default() -> Self {
        Self {
            max_distance: 512,
            buckets: None,
            terms: vec![Term::C2p, Term::P2c],
            shared_projections: false,
            norm: NormConfig::none(),
        }
    }
}

impl DisentangledConfig {
    fn uses_term(&self, term: Term) -> bool {
        self.terms.contains(&term)
    }

    /// Returns k, the number of vectors for each direction.
    fn vectors(&self) -> usize {
        self.buckets.unwrap_or(self.max_distance)
    }

    fn numbers(&self, causal: bool) -> DistanceNumbering {
        DistanceNumbering {
            vectors: self.vectors() as i64,
            buckets: self.buckets.map(|buckets| buckets as i64),
            max_distance: self.max_distance as i64,
            first: if causal { self.vectors() as i64 } else { 0 },
        }
    }
}

impl PositionFacts for DisentangledConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Vectors)
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        at.nested("norm", |at| self.norm.faults(at));
        let most = self.max_distance;
        let sound = at.count("max_distance", most, MAX_POSITIONS);
        if let Some(buckets) = self.buckets.filter(|_| sound) {
            let half = buckets / 2;
            if at.count("buckets", buckets, MAX_POSITIONS) && (half == 0 || most <= half + 1) {
                let rule = format!(
                    "buckets = {buckets} must be at least 2, and its half must be less than max_distance − 1 = {}",
                    most - 1
                );
                at.fault(&["buckets", "max_distance"], rule);
            }
        }
        let twice = self.terms.len() > 1 && self.terms[0] == self.terms[1];
        if self.terms.is_empty() || self.terms.len() > 2 || twice {
            let rule = "terms accepts \"c2p\", \"p2c\" or both, each once; for neither, use kind = \"none\"";
            at.fault(&["terms"], rule);
        }
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }

    fn products(&self, shape: &PositionShape, [queries, sources, keys]: [usize; 3]) -> u128 {
        let span = last_span(queries, sources);
        let rows = self.numbers(shape.causal).of(span).rows() as u128;
        let projected = rows * shape.d_model as u128;
        let met = queries as u128 * rows.min(keys as u128);
        self.terms.len() as u128 * (projected + met) * shape.width()
    }

    fn activations(&self, shape: &PositionShape, keys: usize) -> u128 {
        let rows = self.numbers(shape.causal).of(Span::full(keys)).rows() as u128;
        let layers = shape.attending_layers() as u128;
        let projected = self.terms.len() as u128 * shape.width();
        rows * (shape.d_model as u128 + layers * projected)
    }
}

/// The numbering of distances.
#[derive(Clone, Copy, Debug)]
struct DistanceNumbering {
    vectors: i64,
    buckets: Option<i64>,
    max_distance: i64,
    /// The first distance number that has a vector.
    first: i64,
}

/// The first and the last table row that a span needs.
#[derive(Clone, Copy, Debug)]
struct RowRange {
    first: usize,
    last: usize,
}

impl RowRange {
    fn rows(self) -> usize {
        self.last - self.first + 1
    }
}

impl DistanceNumbering {
    /// Returns the row for a query that is `behind` positions after its key.
    fn row(self, behind: i64) -> usize {
        let place = match self.buckets {
            Some(buckets) => bucket(behind, buckets, self.max_distance),
            None => behind,
        };
        let number = place.saturating_add(self.vectors);
        (number.clamp(self.first, 2 * self.vectors - 1) - self.first) as usize
    }

    fn of(self, span: Span) -> RowRange {
        let last = span.distances().saturating_sub(1);
        RowRange {
            first: self.row(-span.distance(last)),
            last: self.row(-span.distance(0)),
        }
    }
}

/// Returns the logarithmic bucket of a distance, with the sign of the distance; distances up to half of `buckets` have their own
/// bucket.
pub fn bucket(distance: i64, buckets: i64, max_distance: i64) -> i64 {
    let middle = buckets / 2;
    let far = distance.abs();
    if far <= middle {
        return distance;
    }
    let log = |x: i64| (x as f64 / middle as f64).ln();
    let place = (log(far) / log(max_distance - 1) * (middle - 1) as f64).ceil();
    (place as i64 + middle) * distance.signum()
}

/// Roles of the parameters of [`Disentangled`]; the others are declared by linear maps and norms.
pub const ROLES: Roles = Roles::new("Disentangled", &[("table", TABLE)]);

/// Vectors of distances for queries and keys.
#[derive(Module, Debug)]
pub struct Disentangled {
    /// R, `[2k, d_model]`; `[k, d_model]` in a causal model.
    pub table: Param<Tensor<2>>,
    /// Norm on R.
    pub norm: Norm,
    /// K of each layer, `[heads·d_head, d_model]`, without a bias, which would have no effect; `None` for a layer without
    /// attention.
    pub keys: Vec<Option<Linear>>,
    /// Q of each layer, likewise but with a bias.
    pub queries: Vec<Option<Linear>>,
    c2p: bool,
    p2c: bool,
    shared: bool,
    heads: usize,
    dropout: f64,
    #[module(skip)]
    numbers: DistanceNumbering,
}

impl Disentangled {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &DisentangledConfig, shape: &PositionShape, init: &Init) -> Self {
        let numbers = config.numbers(shape.causal);
        let rows = 2 * config.vectors() - numbers.first as usize;
        let width = shape.n_heads * shape.d_head;
        let maps = |name: &str, term: Term, bias: bool| {
            let init = init.part(name);
            match config.uses_term(term) && !config.shared_projections {
                true => per_layer(shape, || {
                    Linear::new(shape.d_model, width, bias, MatrixRole::Inner, &init)
                }),
                false => Vec::new(),
            }
        };
        Self {
            table: init.table(rows, shape.d_model),
            norm: config.norm.init(shape.d_model, init),
            keys: maps("keys", Term::C2p, false),
            queries: maps("queries", Term::P2c, true),
            c2p: config.uses_term(Term::C2p),
            p2c: config.uses_term(Term::P2c),
            shared: config.shared_projections,
            heads: shape.n_heads,
            dropout: shape.dropout,
            numbers,
        }
    }

    /// Projects vectors of distances by a layer's own map.
    fn project(&self, maps: &[Option<Linear>], layer: usize, x: &Tensor<2>) -> Option<Tensor<3>> {
        let map = maps.get(layer)?.as_ref()?;
        let x = map.forward(x.clone().unsqueeze_dim(0));
        Some(split_heads(x.squeeze_dim(0), self.heads))
    }
}

impl PositionScheme for Disentangled {
    fn vectors(&self, span: Span, _device: &Device, _pass: &Pass) -> Option<Tensor<2>> {
        let needed = self.numbers.of(span);
        let rows = self.table.val().narrow(0, needed.first, needed.rows());
        let rows = self.norm.forward(rows.unsqueeze_dim(0));
        Some(rows.squeeze_dim(0))
    }

    fn relative(&self, attending: &AttentionView) -> Option<Relative> {
        // A layer that keeps fewer keys than others needs only the nearest distances.
        let needed = self.numbers.of(attending.span);
        let vectors = attending.prepared.vectors.clone()?;
        let vectors = vectors.narrow(0, 0, needed.rows());
        let vectors = attending
            .pass
            .dropout_shared(vectors, "distances", self.dropout);
        let rows = DistanceRows::new(attending.span, |distance| {
            self.numbers.row(-distance) - needed.first
        });
        let table = |table: Option<Tensor<3>>| {
            table.map(|table| DistanceTable {
                table,
                rows: rows.clone(),
            })
        };
        let (heads, layer) = (attending.heads, attending.layer);
        let [to_keys, to_queries] = match self.shared {
            true => [
                self.c2p.then(|| heads.keys(vectors.clone())),
                self.p2c.then(|| heads.queries(vectors)),
            ],
            false => [
                self.project(&self.keys, layer, &vectors),
                self.project(&self.queries, layer, &vectors),
            ],
        };
        let terms = 1 + usize::from(self.c2p) + usize::from(self.p2c);
        Some(Relative {
            factor: Some(1.0 / (terms as f64).sqrt()),
            queries: table(to_keys),
            keys: table(to_queries),
            ..Relative::default()
        })
    }
}
