//! The pooled vector of a whole text, and the transform before token-level heads: dense layer, activation, norm.
//!
//! BERT's pooler is tanh(W·first position + b), XLNet's the same for the last position. ModernBERT's classifiers read the first
//! position or the mean of all, through a dense layer without bias, GELU and a norm; its token-level heads read each position
//! through the same layers (Warner et al. 2024, released code).

use super::{Encoder, EncoderConfig};
use crate::kernel;
use crate::model::text;
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::{Tensor, activation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The positions that a pooler reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolerInput {
    /// The first position.
    #[default]
    First,
    /// The mean of all positions.
    Mean,
    /// The last position of each text (XLNet, whose texts end with a token for this purpose).
    Last,
}

impl PoolerInput {
    /// Returns the value of its key.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Mean => "mean",
            Self::Last => "last",
        }
    }
}

impl Encoder {
    /// Computes one vector per text of these lengths, `[batch, d_model]`, from hidden states.
    pub fn pooled(&self, hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
        let [batch, _, d] = hidden.dims();
        let read = match self.pooler_input {
            PoolerInput::First => hidden.slice([0..batch, 0..1, 0..d]),
            PoolerInput::Mean => text::mean_pool(hidden, lengths).reshape([batch, 1, d]),
            PoolerInput::Last => text::last_token(hidden, lengths).reshape([batch, 1, d]),
        };
        let pooled = match &self.pooler {
            Some(pooler) => {
                let x = pooler.forward(read);
                match self.pooler_activation {
                    Some(nonlinearity) => kernel::activate(x, nonlinearity.into()),
                    None => activation::tanh(x),
                }
            }
            None => read,
        };
        let pooled = match &self.pooler_norm {
            Some(norm) => norm.forward(pooled),
            None => pooled,
        };
        let [_, _, width] = pooled.dims();
        pooled.reshape([batch, width])
    }

    /// Computes the input of token-level heads, `[batch, seq, d]`, from hidden states.
    pub fn token_features(&self, hidden: Tensor<3>) -> Tensor<3> {
        match &self.token_transform {
            Some(transform) => transform.forward(hidden),
            None => hidden,
        }
    }
}

/// Places of the parameters of [`TokenTransform`].
pub const ROLES: Roles = Roles::new(
    "TokenTransform",
    &[
        ("dense", Declaration::Place(Place::Head)),
        ("norm", Declaration::Place(Place::Head)),
    ],
);

/// The transform before token-level heads: dense layer, activation, norm.
#[derive(Module, Debug)]
pub struct TokenTransform {
    /// The dense layer, `[d_model, d_output]`.
    pub dense: Linear,
    /// The norm after the activation.
    pub norm: Norm,
    #[module(skip)]
    activation: Activation,
}

impl TokenTransform {
    /// Builds the transform of an encoder with this config.
    pub fn new(config: &EncoderConfig, init: &Init) -> Self {
        let (read, d) = (config.stack.d_output(), config.stack.d_model);
        let biased = config.head_transform_bias;
        Self {
            dense: Linear::new(read, d, biased, MatrixRole::Inner, &init.part("dense")),
            norm: config.stack.norm.init(d, init),
            activation: config.head_activation,
        }
    }

    fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
        let x = kernel::activate(self.dense.forward(hidden), self.activation.into());
        self.norm.forward(x)
    }
}
