//! Dynamic position bias: a small network computes the bias of each head from a distance, so that distances unseen in training
//! have one, too (Wang et al. 2021, CrossFormer, section 3.3; x-transformers' `dynamic_pos_bias`).
//!
//! The input is query − key, or sign·ln(1 + |query − key|). It passes through `depth` hidden layers of `hidden` units with SiLU
//! and a last layer with one output for each head. All layers of the model share the network.

use super::facts::{ActsOn, HeadEffect, KnownSizes, PositionFacts, last_span};
use super::{Kind, PositionScheme, PositionShape, Prepared, ScoreBias, Span};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::{Activation, replay};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "dynamic_bias",
    summary: "a small network makes each head's bias from the distance",
    source: "Wang et al. 2021, section 3.3",
    example: "{ kind = \"dynamic_bias\", hidden = 32, log_distance = true }",
};

/// Settings of biases computed by a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicBiasConfig {
    /// Width of the hidden layers; a quarter of `d_model` when absent, as in x-transformers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<usize>,
    /// Number of hidden layers.
    pub depth: usize,
    /// Whether the network reads the logarithm of the distance, which grows slowly beyond the training length.
    pub log_distance: bool,
}

impl Default for DynamicBiasConfig {
    fn default() -> Self {
        Self {
            hidden: None,
            depth: 2,
            log_distance: false,
        }
    }
}

/// Maximum depth of the network.
const MAX_DEPTH: usize = 64;

impl DynamicBiasConfig {
    fn hidden(&self, d_model: usize) -> usize {
        self.hidden.unwrap_or((d_model / 4).max(1))
    }
}

impl PositionFacts for DynamicBiasConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::Bias)
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        if let Some(hidden) = self.hidden {
            at.count("hidden", hidden, MAX_WIDTH);
        }
        at.count("depth", self.depth, MAX_DEPTH);
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }

    /// One network serves all layers; each layer is charged an equal share of its products.
    fn products(&self, shape: &PositionShape, [queries, sources, _]: [usize; 3]) -> u128 {
        let hidden = self.hidden(shape.d_model) as u128;
        let inner = (self.depth as u128 - 1) * hidden * hidden;
        let one = hidden + inner + hidden * shape.n_heads as u128;
        let distances = last_span(queries, sources).distances() as u128;
        one * distances / shape.attending_layers().max(1) as u128
    }

    fn activations(&self, shape: &PositionShape, keys: usize) -> u128 {
        let hidden = self.hidden(shape.d_model) as u128;
        Span::full(keys).distances() as u128 * hidden * 2 * self.depth as u128
    }
}

/// Adds biases that a network computes from the distance to the scores.
#[derive(Module, Debug)]
pub struct DynamicBias {
    /// The hidden layers, of which the first reads a single number.
    hidden: Vec<Linear>,
    /// The last layer, with one output for each head.
    head: Linear,
    log_distance: bool,
}

impl DynamicBias {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &DynamicBiasConfig, shape: &PositionShape, init: &Init) -> Self {
        let width = config.hidden(shape.d_model);
        let hidden = (0..config.depth).map(|layer| match layer {
            0 => Linear::new(1, width, true, MatrixRole::Input, init),
            _ => Linear::new(width, width, true, MatrixRole::Inner, init),
        });
        Self {
            hidden: hidden.collect(),
            head: Linear::new(width, shape.n_heads, true, MatrixRole::Inner, init),
            log_distance: config.log_distance,
        }
    }

    /// Returns query − key of each diagonal, in the form that the network reads.
    fn inputs(&self, span: Span) -> Vec<f32> {
        let input = |diagonal| {
            let distance = -(span.distance(diagonal) as f64);
            match self.log_distance {
                true => (distance.abs().ln_1p() * distance.signum()) as f32,
                false => distance as f32,
            }
        };
        (0..span.distances()).map(input).collect()
    }
}

impl PositionScheme for DynamicBias {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        let inputs = self.inputs(span);
        let rows = inputs.len();
        let inputs: Tensor<2> = replay::floats(TensorData::new(inputs, [rows, 1]), device);
        let read = |x: Tensor<3>, map: &Linear| map.forward_activated(x, Activation::Silu);
        let hidden = self.hidden.iter().fold(inputs.unsqueeze_dim(0), read);
        let bias: Tensor<2> = self.head.forward(hidden).squeeze_dim(0);
        Prepared {
            score_bias: ScoreBias::ByDistance(bias.transpose()),
            ..Prepared::default()
        }
    }
}
