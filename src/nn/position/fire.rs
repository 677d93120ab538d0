//! Functional interpolation for relative positions (Li et al. 2024, FIRE, section 3.1): a small network computes each head's bias
//! from the distance divided by the query's own position, both on a logarithmic scale.
//!
//! The bias of query i and key j is f(ψ(i − j) / ψ(max(i, L))) with ψ(x) = ln(c·x + 1), where c and L are learned. Beyond L the
//! longest distance of every query maps to 1, so that texts longer than those of training are interpolated, not extrapolated. f
//! has one hidden layer with ReLU. Positions count from the start of the row.

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts};
use super::{
    AttentionView, Kind, PositionScheme, PositionShape, Prepared, ScoreBias, Span, per_layer,
};
use crate::faults::{MAX_POSITIONS, MAX_WIDTH, TableFaults};
use crate::kernel::{Activation, replay};
use crate::nn::init::Init;
use crate::nn::linear::Linear;
use crate::nn::role::{BIAS, Roles};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "fire",
    summary: "a small network makes each head's bias from a distance as a share of the query's position",
    source: "Li et al. 2024, section 3.1",
    example: "{ kind = \"fire\", hidden = 32, threshold = 512 }",
};

/// Settings of interpolated positions (FIRE).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FireConfig {
    /// Number of units of the network's hidden layer. Source: Li et al. 2024, appendix A.
    pub hidden: usize,
    /// Initial L: queries at earlier positions have their distances divided by L. A learned factor scales it. Positions count
    /// from the start of a row, also in packed documents.
    pub threshold: usize,
    /// Whether all layers share one network (FIRE-S) instead of one network for each.
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

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::PairBias)
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        at.count("hidden", self.hidden, MAX_WIDTH);
        at.count("threshold", self.threshold, MAX_POSITIONS);
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }

    fn causal_only(&self) -> bool {
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

    fn activations(&self, shape: &PositionShape, keys: usize) -> u128 {
        let networks = match self.shared {
            true => 1,
            false => shape.attending_layers(),
        };
        let pairs = keys as u128 * keys as u128;
        pairs * (self.hidden + shape.n_heads + 4) as u128 * networks as u128
    }
}

/// Roles of the parameters of a [`FireNetwork`]; those of its maps are declared by linear maps.
pub const ROLES: Roles = Roles::new("FireNetwork", &[("c", BIAS), ("l_factor", BIAS)]);

/// A network that computes the bias of each head from a normalised distance.
#[derive(Module, Debug)]
pub struct FireNetwork {
    /// c, a single number.
    c: Param<Tensor<1>>,
    /// The factor on L, a single number.
    l_factor: Param<Tensor<1>>,
    hidden: Linear,
    head: Linear,
    threshold: usize,
}

/// Builds a map whose values are drawn uniformly within ±1/√inputs, like PyTorch's default, whatever the model's init scheme:
/// that scheme's deviations are meant for vectors of the residual stream, and a normalised distance is not one.
fn uniform_linear(inputs: usize, outputs: usize, init: &Init) -> Linear {
    let most = (inputs as f32).sqrt().recip();
    let drawn = move |u: f32| most * (2.0 * u - 1.0);
    Linear {
        weight: init.uniform([outputs, inputs], drawn),
        bias: Some(init.uniform([outputs], drawn)),
    }
}

/// Initial c.
const INITIAL_C: f32 = 0.1;

/// Added to the divisor, which is 0 at position 0 if L is 0.
const EPS: f32 = 1e-6;

impl FireNetwork {
    fn new(config: &FireConfig, heads: usize, init: &Init) -> Self {
        Self {
            c: init.vector(1, INITIAL_C),
            l_factor: init.vector(1, 1.0),
            hidden: uniform_linear(1, config.hidden, init),
            head: uniform_linear(config.hidden, heads, init),
            threshold: config.threshold,
        }
    }

    /// Returns the biases, `[1, heads, queries, keys]`.
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
        let hidden = self.hidden.forward_activated(share, Activation::Relu);
        let bias = self.head.forward(hidden);
        let [_, _, heads] = bias.dims();
        bias.reshape([1, queries, keys, heads])
            .permute([0, 3, 1, 2])
    }
}

/// Adds biases by normalised distance to the scores.
#[derive(Module, Debug)]
pub struct Fire {
    /// The network shared by all layers.
    shared: Option<FireNetwork>,
    /// The network of each layer; `None` for a layer without attention. Empty if all layers share one.
    layers: Vec<Option<FireNetwork>>,
}

impl Fire {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &FireConfig, shape: &PositionShape, init: &Init) -> Self {
        let network = || FireNetwork::new(config, shape.n_heads, init);
        match config.shared {
            true => Self {
                shared: Some(network()),
                layers: Vec::new(),
            },
            false => Self {
                shared: None,
                layers: per_layer(shape, network),
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

    fn score_bias(&self, attending: &AttentionView) -> Option<ScoreBias> {
        let network = self.layers.get(attending.layer)?.as_ref()?;
        Some(ScoreBias::Dense(
            network.bias(attending.span, attending.device),
        ))
    }
}
