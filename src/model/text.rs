//! The networks that read whole texts, as one type.

use super::encoder::{Encoder, EncoderInput};
use super::recurrent::RecurrentReader;
use super::{ModelConfig, ModelInputs};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::{Device, Tensor};

/// A network that reads whole texts.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum TextModel {
    /// A bidirectional encoder.
    Encoder(Encoder),
    /// Recurrent cells.
    Recurrent(RecurrentReader),
}

impl TextModel {
    /// The network of a config; `None` when the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::Encoder(c) => Some(Self::Encoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.reader(inputs))),
            ModelConfig::Decoder(_)
            | ModelConfig::EncoderDecoder(_)
            | ModelConfig::Vision(_)
            | ModelConfig::Resnet(_) => None,
        }
    }

    /// Hidden states `[batch, seq, d_model]`.
    pub fn forward(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        match self {
            Self::Encoder(network) => network.forward(input, pass),
            Self::Recurrent(network) => network.forward(input, pass),
        }
    }

    /// What stands for each text, `[batch, d_model]`, from its hidden states: an encoder's first position, through its
    /// pooler when it has one; the state of recurrent cells after the last token.
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        match self {
            Self::Encoder(network) => network.pooled(hidden),
            Self::Recurrent(network) => network.pooled(hidden),
        }
    }

    /// Where its parameters live.
    pub fn device(&self) -> Device {
        let embedding = match self {
            Self::Encoder(network) => &network.embedding,
            Self::Recurrent(network) => &network.embedding,
        };
        embedding.weight.val().device()
    }
}
