//! The networks that read a text and write another one, in one enum.

use super::heads::VocabularyHead;
use super::recurrent::RecurrentEncoderDecoder;
use super::{BuildContext, EncoderDecoder, GlobalTokens, ModelConfig};
use crate::kernel::Globals;
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::{Int, Tensor};

/// An encoder-decoder of either kind.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum PairModel {
    /// A transformer.
    EncoderDecoder(EncoderDecoder),
    /// A recurrent network.
    Recurrent(RecurrentEncoderDecoder),
}

impl From<EncoderDecoder> for PairModel {
    fn from(network: EncoderDecoder) -> Self {
        Self::EncoderDecoder(network)
    }
}

impl PairModel {
    /// Builds the network of a config; `None` if the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::EncoderDecoder(c) => Some(Self::EncoderDecoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.encoder_decoder(inputs))),
            _ => None,
        }
    }

    /// Computes hidden states `[batch, target, d_model]` of target ids, given source ids `[batch, source]` of these lengths.
    pub fn hidden_states(
        &self,
        source: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        target: Tensor<2, Int>,
        pass: &Pass,
    ) -> Tensor<3> {
        self.hidden_states_with_globals(source, (lengths, None), target, pass)
    }

    /// Computes the same hidden states with the given global tokens of the sources, instead of those that the network marks.
    pub fn hidden_states_with_globals(
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
                    globals => network.encode_with_globals(source, lengths, globals, pass),
                };
                network.decode(target, &source, None, pass)
            }
            Self::Recurrent(network) => {
                let source = network.encode(source, lengths, pass);
                network.decode(target, &source, &mut source.state.clone(), pass)
            }
        }
    }

    /// Returns the model with this rule for global tokens of its sources.
    pub fn with_global_tokens(mut self, globals: GlobalTokens) -> Self {
        if let Self::EncoderDecoder(network) = &mut self {
            network.globals = globals;
        }
        self
    }

    /// Returns the LM head.
    pub fn vocabulary_head(&self) -> VocabularyHead<'_> {
        match self {
            Self::EncoderDecoder(network) => network.vocabulary_head(),
            Self::Recurrent(network) => network.vocabulary_head(),
        }
    }
}
