//! The networks that read whole texts, in one enum.

use super::convolutional::Convolutional;
use super::decoder::{Decoder, DecoderInput};
use super::encoder::pooler::PoolerInput;
use super::encoder::{Encoder, EncoderInput};
use super::recurrent::RecurrentReader;
use super::{BuildContext, LanguageModel, ModelConfig};
use crate::kernel::{self, replay};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// A network that reads whole texts.
#[derive(Module, Debug)]
pub enum TextModel {
    /// A bidirectional encoder.
    Encoder(Encoder),
    /// A recurrent network.
    Recurrent(RecurrentReader),
    /// A convolutional network over tokens.
    Convolutional(Convolutional),
    /// A decoder-only transformer (Radford et al. 2018, section 3.2).
    Decoder(Decoder),
}

impl TextModel {
    /// Builds the network of a config; `None` if the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::Encoder(c) => Some(Self::Encoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.reader(inputs))),
            ModelConfig::Convolutional(c) => Some(Self::Convolutional(c.init(inputs))),
            ModelConfig::Decoder(c) => Some(Self::Decoder(c.init_reader(inputs))),
            _ => None,
        }
    }

    /// Computes hidden states `[batch, seq, d_model]`.
    pub fn forward(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        match self {
            Self::Encoder(network) => network.forward(input, pass),
            Self::Recurrent(network) => network.forward(input, pass),
            Self::Convolutional(network) => network.forward(input, pass),
            Self::Decoder(network) => {
                let mut read = DecoderInput::new(input.ids);
                read.visible.lengths = input.lengths.map(Into::into);
                read.visible.globals = input.globals;
                network.forward(read, None, pass)
            }
        }
    }

    /// Returns the network's default vector of each text, `[batch, d]`, from its hidden states. An encoder takes the first or last
    /// position or the mean of all, through its pooler if it has one; a convolutional network the maximum of each feature; other
    /// networks the hidden state of the last token.
    pub fn pooled(&self, hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
        match self {
            Self::Encoder(network) => network.pooled(hidden, lengths),
            Self::Recurrent(network) => network.pooled(hidden),
            Self::Convolutional(network) => network.pooled(hidden, lengths),
            Self::Decoder(_) => last_token(hidden, lengths),
        }
    }

    /// Returns the input of token-level heads, `[batch, seq, d]`: the hidden states, or an encoder's transform of them.
    pub fn token_features(&self, hidden: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Encoder(network) => network.token_features(hidden),
            Self::Recurrent(_) | Self::Convolutional(_) | Self::Decoder(_) => hidden,
        }
    }

    /// Returns the network's default pooling of a text.
    pub fn default_pooling(&self) -> TextPooling {
        match self {
            Self::Encoder(network) => match network.pooler_input() {
                PoolerInput::First => TextPooling::First,
                PoolerInput::Mean => TextPooling::Mean,
                PoolerInput::Last => TextPooling::Last,
            },
            Self::Recurrent(_) | Self::Decoder(_) => TextPooling::Last,
            Self::Convolutional(_) => TextPooling::Max,
        }
    }

    /// Returns the device of its parameters.
    pub fn device(&self) -> Device {
        match self {
            Self::Encoder(network) => network.embedding.weight.val().device(),
            Self::Recurrent(network) => network.embedding.weight.val().device(),
            Self::Convolutional(network) => network.embedding.weight.val().device(),
            Self::Decoder(network) => network.embedding.device(),
        }
    }
}

/// The pooling of a text's hidden states into one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPooling {
    /// The state of the first position.
    First,
    /// The mean of all states.
    Mean,
    /// The state of the last position.
    Last,
    /// The maximum of each feature over all positions.
    Max,
}

/// Averages hidden states `[batch, seq, d]` over each text's positions: `[batch, d]`.
pub fn mean_pool(hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
    let ([rows, cols, d], device) = (hidden.dims(), hidden.device());
    let weights: Vec<f32> = (0..rows)
        .flat_map(|row| {
            let length = lengths.map_or(cols, |lengths| lengths[row]);
            let weight = 1.0 / length.max(1) as f32;
            (0..cols).map(move |col| if col < length { weight } else { 0.0 })
        })
        .collect();
    let weights = Tensor::<3>::from_data(TensorData::new(weights, [rows, cols, 1]), &device);
    (hidden * weights).sum_dim(1).reshape([rows, d])
}

/// Takes the maximum of each feature of hidden states `[batch, seq, d]` over each text's positions: `[batch, d]`.
pub fn max_pool(hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
    let [batch, seq, d] = hidden.dims();
    let padded = |lengths: &&[usize]| lengths.iter().any(|length| *length < seq);
    let hidden = match lengths.filter(padded) {
        None => hidden,
        Some(lengths) => {
            let row = |length: &usize| {
                let length = (*length).max(1);
                (0..seq).map(move |at| at >= length)
            };
            let behind: Vec<bool> = lengths.iter().flat_map(row).collect();
            let behind = TensorData::new(behind, [batch, seq, 1]);
            let behind = Tensor::<3, Bool>::from_data(behind, &hidden.device());
            hidden.mask_fill(behind.expand([batch, seq, d]), f32::NEG_INFINITY)
        }
    };
    hidden.max_dim(1).reshape([batch, d])
}

/// Returns the hidden state of each text's last token, `[batch, d]`.
pub fn last_token(hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
    let ([batch, seq, d], device) = (hidden.dims(), hidden.device());
    let place = |row: usize| {
        let length = lengths.map_or(seq, |lengths| lengths[row]);
        (row * seq + length.max(1) - 1) as i32
    };
    let places: Vec<i32> = (0..batch).map(place).collect();
    let places = replay::integers(TensorData::new(places, [1, batch]), &device);
    kernel::embedding(hidden.reshape([batch * seq, d]), places).reshape([batch, d])
}
