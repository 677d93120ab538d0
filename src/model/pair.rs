//! The networks that read a text and write another one, as one type.

use super::heads::VocabularyHead;
use super::recurrent::RecurrentEncoderDecoder;
use super::{EncoderDecoder, GlobalTokens, ModelConfig, ModelInputs};
use crate::kernel::Globals;
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::{Int, Tensor};

/// A network of an encoder and a decoder.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum PairModel {
    /// Of transformers.
    EncoderDecoder(EncoderDecoder),
    /// Of recurrent cells.
    Recurrent(RecurrentEncoderDecoder),
}

impl From<EncoderDecoder> for PairModel {
    fn from(network: EncoderDecoder) -> Self {
        Self::EncoderDecoder(network)
    }
}

impl PairModel {
    /// The network of a config; `None` when the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::EncoderDecoder(c) => Some(Self::EncoderDecoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.encoder_decoder(inputs))),
            _ => None,
        }
    }

    /// Hidden states `[batch, target, d_model]` of target ids after source ids `[batch, source]` of these lengths.
    pub fn hidden(
        &self,
        source: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        target: Tensor<2, Int>,
        pass: &Pass,
    ) -> Tensor<3> {
        self.hidden_marked(source, (lengths, None), target, pass)
    }

    /// The same where these tokens of the sources are global, and not those that the network marks.
    pub fn hidden_marked(
        &self,
        source: Tensor<2, Int>,
        (lengths, globals): (Option<Vec<usize>>, Option<Globals>),
        target: Tensor<2, Int>,
        pass: &Pass,
    ) -> Tensor<3> {
        match self {
            Self::EncoderDecoder(network) => {
                let source = match globals {
                    None => network.encode(source, lengths, pass),
                    globals => network.encode_marked(source, lengths, globals, pass),
                };
                network.decode(target, &source, None, pass)
            }
            Self::Recurrent(network) => {
                let source = network.encode(source, lengths, pass);
                network.decode(target, &source, &mut source.state.clone(), pass)
            }
        }
    }

    /// The same, which marks these tokens of its sources as global.
    pub fn marking(mut self, globals: GlobalTokens) -> Self {
        if let Self::EncoderDecoder(network) = &mut self {
            network.globals = globals;
        }
        self
    }

    /// The product onto the vocabulary.
    pub fn vocabulary_head(&self) -> VocabularyHead<'_> {
        match self {
            Self::EncoderDecoder(network) => network.vocabulary_head(),
            Self::Recurrent(network) => network.vocabulary_head(),
        }
    }
}
