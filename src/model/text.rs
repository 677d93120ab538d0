//! The networks that read whole texts, as one type.

use super::convolutional::Convolutional;
use super::decoder::{Decoder, DecoderInput};
use super::encoder::pooler::PoolerInput;
use super::encoder::{Encoder, EncoderInput};
use super::recurrent::RecurrentReader;
use super::{LanguageModel, ModelConfig, ModelInputs};
use crate::kernel::{self, replay};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// A network that reads whole texts.
#[derive(Module, Debug)]
pub enum TextModel {
    /// A bidirectional encoder.
    Encoder(Encoder),
    /// Recurrent cells.
    Recurrent(RecurrentReader),
    /// Convolutions over tokens.
    Convolutional(Convolutional),
    /// A causal stack (Radford et al. 2018, section 3.2).
    Decoder(Decoder),
}

impl TextModel {
    /// The network of a config; `None` when the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::Encoder(c) => Some(Self::Encoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.reader(inputs))),
            ModelConfig::Convolutional(c) => Some(Self::Convolutional(c.init(inputs))),
            ModelConfig::Decoder(c) => Some(Self::Decoder(c.reader(inputs))),
            _ => None,
        }
    }

    /// Hidden states `[batch, seq, d_model]`.
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

    /// The vector that stands for each text of these lengths where nothing else is said, `[batch, d_model]`, from its
    /// hidden states: an encoder's first or last position or the mean of all, through its pooler when it has one; of convolutions
    /// the largest value of each feature; else the state after the last token.
    pub fn pooled(&self, hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
        match self {
            Self::Encoder(network) => network.pooled(hidden, lengths),
            Self::Recurrent(network) => network.pooled(hidden),
            Self::Convolutional(network) => network.pooled(hidden, lengths),
            Self::Decoder(_) => last(hidden, lengths),
        }
    }

    /// What heads of single tokens read, `[batch, seq, d]`, from hidden states: these, or an encoder's transform of them.
    pub fn for_tokens(&self, hidden: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Encoder(network) => network.for_tokens(hidden),
            Self::Recurrent(_) | Self::Convolutional(_) | Self::Decoder(_) => hidden,
        }
    }

    /// What stands for a text where nothing else is said.
    pub fn stands(&self) -> Stands {
        match self {
            Self::Encoder(network) => match network.pooler_input() {
                PoolerInput::First => Stands::First,
                PoolerInput::Mean => Stands::Mean,
                PoolerInput::Last => Stands::Last,
            },
            Self::Recurrent(_) | Self::Decoder(_) => Stands::Last,
            Self::Convolutional(_) => Stands::Largest,
        }
    }

    /// Where its parameters live.
    pub fn device(&self) -> Device {
        match self {
            Self::Encoder(network) => network.embedding.weight.val().device(),
            Self::Recurrent(network) => network.embedding.weight.val().device(),
            Self::Convolutional(network) => network.embedding.weight.val().device(),
            Self::Decoder(network) => network.embedding.device(),
        }
    }
}

/// What stands for a text among the states of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// The state of the first position.
    First,
    /// The mean of all states.
    Mean,
    /// That of the last one.
    Last,
    /// The largest of each number over all positions.
    Largest,
}

/// The mean of each text's hidden states `[batch, seq, d]` over its positions, `[batch, d]`.
pub fn mean(hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
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

/// The largest of each number of the hidden states `[batch, seq, d]` over the positions of each text, `[batch, d]`.
pub fn largest(hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
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

/// The hidden states `[batch, d]` of the last token of each text.
pub fn last(hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
    let ([batch, seq, d], device) = (hidden.dims(), hidden.device());
    let place = |row: usize| {
        let length = lengths.map_or(seq, |lengths| lengths[row]);
        (row * seq + length.max(1) - 1) as i32
    };
    let places: Vec<i32> = (0..batch).map(place).collect();
    let places = replay::integers(TensorData::new(places, [1, batch]), &device);
    kernel::embedding(hidden.reshape([batch * seq, d]), places).reshape([batch, d])
}
