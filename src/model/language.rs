//! The networks that continue texts: decoder-only transformers and recurrent language models.

use super::decoder::{Decoder, DecoderInput};
use super::heads::VocabularyHead;
use super::recurrent::RecurrentLm;
use super::{BuildContext, ModelConfig};
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use std::fmt::Debug;

/// A network that predicts the next token.
pub trait LanguageModel: Debug {
    /// Returns the model's state before the first call.
    fn empty_state(&self, of: StateUse) -> ModelState;

    /// The longest input that the position scheme can encode, if there is a limit.
    fn max_len(&self) -> Option<usize>;

    /// Whether texts of any length are continued at a constant cost per token, from a memory of earlier segments.
    fn has_bounded_state(&self) -> bool {
        false
    }

    /// Whether continuing a text after `seen` tokens changes the rotation of these tokens' positions, so that cached keys,
    /// computed for the shorter text, are out of date.
    fn cache_is_stale_after(&self, _seen: usize) -> bool {
        false
    }

    /// Computes hidden states `[batch, seq, d_model]` after the last norm; `state` continues where its last call ended.
    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3>;

    /// Returns the LM head.
    fn vocabulary_head(&self) -> VocabularyHead<'_>;

    /// Computes logits `[batch, seq, vocab]` from hidden states.
    fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.vocabulary_head().logits(hidden)
    }

    /// Returns the device of its parameters.
    fn device(&self) -> Device {
        self.vocabulary_head().embedding.device()
    }
}

/// The networks that continue texts, in one enum.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum AnyLanguageModel {
    /// A decoder-only transformer.
    Decoder(Decoder),
    /// A recurrent language model.
    Recurrent(RecurrentLm),
}

impl From<Decoder> for AnyLanguageModel {
    fn from(network: Decoder) -> Self {
        Self::Decoder(network)
    }
}

impl AnyLanguageModel {
    /// Builds the network of a config; `None` if the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::Decoder(c) => Some(Self::Decoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.language_model(inputs))),
            _ => None,
        }
    }

    /// Returns the network as a trait object.
    pub fn network(&self) -> &dyn LanguageModel {
        match self {
            Self::Decoder(network) => network,
            Self::Recurrent(network) => network,
        }
    }
}
