//! Functional interpolation for relative positions: a small network makes each head's bias from a distance that is divided by the
//! query's own position, both on a logarithmic scale (Li et al. 2024, FIRE, section 3.1).
//!
//! The bias of query i and key j is f(ψ(i − j) / ψ(max(i, L))) with ψ(x) = ln(c·x + 1), c and L learned. Beyond L the longest distance
//! of every query is 1, so that longer texts than training's are interpolated, not extrapolated. f has one hidden layer with ReLU.
//! Positions count from the start of the row.

use super::facts::{Acts, Known, Means, PositionFacts};
use super::{Attending, Kind, PositionScheme, PositionShape, Prepared, ScoreBias, Span, of_layers};
use crate::faults::{LONGEST, TableFaults, WIDEST};
use crate::kernel::{Activation, replay};
use crate::nn::init::Init;
use crate::nn::linear::Linear;
use crate::nn::role::{BIAS, Roles};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "fire",
    summary: "a small network makes each head's bias from a distance as a share of the query's position",
    source: "Li et al. 2024, section 3.1",
    example: "{ kind = \"fire\", hidden = 32, threshold = 512 }",
};

/// The knobs of interpolated positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FireConfig {
    /// Units of the network's hidden layer. Source: Li et al. 2024, appendix A.
    pub hidden: usize,
    /// L at the start: queries before it have their distances divided by it. A learned factor moves it. Positions count from the start
    /// of a row, of packed documents, too.
    pub threshold: usize,
    /// Whether all layers share one network (FIRE-S), in place of one for each.
    pub shared: bool,
}

impl Default for FireConfig {
    fn default() -> Self {
        Self {
            hidden: 32,
            threshold: 512,
            shared: false,
        }
    }
}

impl PositionFacts for FireConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts(&self) -> Acts {
        Acts::Heads(Means::PairBias)
    }

    fn faults(&self, _: &Known, at: &mut TableFaults) {
        at.count("hidden", self.hidden, WIDEST);
        at.count("threshold", self.threshold, LONGEST);
    }

    fn of_images(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }

    fn causal_alone(&self) -> bool {
        true
    }

    fn products(&self, shape: &PositionShape, [queries, sources, _]: [usize; 3]) -> u128 {
        let one = self.hidden as u128 * (1 + shape.n_heads as u128);
        let each = one * queries as u128 * sources as u128;
        match self.shared {
            true => each / shape.attending_layers().max(1) as u128,
            false => each,
        }
    }

    fn kept(&self, shape: &PositionShape, keys: usize) -> u128 {
        let networks = match self.shared {
            true => 1,
            false => shape.attending_layers(),
        };
        let pairs = keys as u128 * keys as u128;
        pairs * (self.hidden + shape.n_heads + 4) as u128 * networks as u128
    }
}

/// The roles of the parameters of a [`Network`]; those of its maps are a linear map's.
pub const ROLES: Roles = Roles::new("FireNetwork", &[("c", BIAS), ("l_factor", BIAS)]);

/// The bias of each head as a function of a share of distance.
#[derive(Module, Debug)]
pub struct FireNetwork {
    /// c, one number.
    c: Param<Tensor<1>>,
    /// The factor on L, one number.
    l_factor: Param<Tensor<1>>,
    hidden: Linear,
    head: Linear,
    threshold: usize,
}

/// A map whose numbers are drawn evenly up to 1/√inputs, as PyTorch's are, whatever the scheme: a share of distance is no vector of the
/// stream, and the scheme's deviations are meant for those.
fn map(inputs: usize, outputs: usize, init: &Init) -> Linear {
    let most = (inputs as f32).sqrt().recip();
    let drawn = move |u: f32| most * (2.0 * u - 1.0);
    Linear {
        weight: init.uniform([outputs, inputs], drawn),
        bias: Some(init.uniform([outputs], drawn)),
    }
}

/// c at the start.
const FIRST_C: f32 = 0.1;

/// Added to the divisor: position 0 has a logarithm of 0 where L is 0.
const EPS: f32 = 1e-6;

impl FireNetwork {
    fn new(config: &FireConfig, heads: usize, init: &Init) -> Self {
        Self {
            c: init.vector(1, FIRST_C),
            l_factor: init.vector(1, 1.0),
            hidden: map(1, config.hidden, init),
            head: map(config.hidden, heads, init),
            threshold: config.threshold,
        }
    }

    /// `[1, heads, queries, keys]`.
    fn bias(&self, span: Span, device: &Device) -> Tensor<4> {
        let Span {
            queries,
            keys,
            offset,
        } = span;
        let floats = |numbers: Vec<f32>, shape: [usize; 2]| -> Tensor<2> {
            replay::floats(TensorData::new(numbers, shape), device)
        };
        let positions = offset..offset + queries;
        let apart = positions
            .clone()
            .flat_map(|i| (0..keys).map(move |j| i.abs_diff(j) as f32));
        let apart = floats(apart.collect(), [queries, keys]);
        let positions = floats(positions.map(|i| i as f32).collect(), [queries, 1]);
        let one = |number: &Param<Tensor<1>>| number.val().abs().unsqueeze_dim::<2>(0);
        let threshold = one(&self.l_factor) * self.threshold as f32;
        let farthest = positions.max_pair(threshold.expand([queries, 1]));
        let psi = |x: Tensor<2>| (x * one(&self.c) + 1.0).log();
        let share = psi(apart) / (psi(farthest) + EPS);
        let share = share.reshape([1, queries * keys, 1]);
        let hidden = self.hidden.activated(share, Activation::Relu);
        let bias = self.head.forward(hidden);
        let [_, _, heads] = bias.dims();
        bias.reshape([1, queries, keys, heads])
            .permute([0, 3, 1, 2])
    }
}

/// Biases scores by shares of distances.
#[derive(Module, Debug)]
pub struct Fire {
    /// That of all layers.
    shared: Option<FireNetwork>,
    /// Those of each; none for a layer without attention, or where all share one.
    layers: Vec<Option<FireNetwork>>,
}

impl Fire {
    /// The scheme for a model of this shape.
    pub fn new(config: &FireConfig, shape: &PositionShape, init: &Init) -> Self {
        let network = || FireNetwork::new(config, shape.n_heads, init);
        match config.shared {
            true => Self {
                shared: Some(network()),
                layers: Vec::new(),
            },
            false => Self {
                shared: None,
                layers: of_layers(shape, network),
            },
        }
    }
}

impl PositionScheme for Fire {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let bias = self
            .shared
            .as_ref()
            .map(|network| network.bias(span, device));
        Prepared {
            score_bias: bias.map_or(ScoreBias::None, ScoreBias::Dense),
            ..Prepared::default()
        }
    }

    fn score_bias(&self, attending: &Attending) -> Option<ScoreBias> {
        let network = self.layers.get(attending.layer)?.as_ref()?;
        Some(ScoreBias::Dense(
            network.bias(attending.span, attending.device),
        ))
    }
}
