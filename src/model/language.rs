//! The networks that continue texts: the decoder of transformers, and recurrent language models.

use super::decoder::{Decoder, DecoderInput};
use super::heads::VocabularyHead;
use super::recurrent::RecurrentLm;
use super::{ModelConfig, ModelInputs};
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use std::fmt::Debug;

/// A network that gives scores of the next token.
pub trait LanguageModel: Debug {
    /// What the model keeps between calls, before the first one.
    fn empty_state(&self, of: StateUse) -> ModelState;

    /// The longest input that the model can place, when it has a limit.
    fn max_len(&self) -> Option<usize>;

    /// Whether it continues texts of any length at a constant cost for each token, from a memory of earlier segments.
    fn reads_on(&self) -> bool {
        false
    }

    /// Whether a text that continues behind `seen` tokens has the positions of these turned anew: what its cache holds of them
    /// is that of a shorter text.
    fn cache_is_stale_after(&self, _seen: usize) -> bool {
        false
    }

    /// Hidden states `[batch, seq, d_model]` after the last norm; `state` continues where its last call ended.
    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3>;

    /// The product onto the vocabulary.
    fn vocabulary_head(&self) -> VocabularyHead<'_>;

    /// Scores of the vocabulary `[batch, seq, vocab]` from hidden states.
    fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.vocabulary_head().logits(hidden)
    }

    /// Where its parameters live.
    fn device(&self) -> Device {
        self.vocabulary_head().embedding.device()
    }
}

/// The networks that continue texts, as one type.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum AnyLanguageModel {
    /// A decoder.
    Decoder(Decoder),
    /// Recurrent cells.
    Recurrent(RecurrentLm),
}

impl From<Decoder> for AnyLanguageModel {
    fn from(network: Decoder) -> Self {
        Self::Decoder(network)
    }
}

impl AnyLanguageModel {
    /// The network of a config; `None` when the config is of another kind.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::Decoder(c) => Some(Self::Decoder(c.init(inputs))),
            ModelConfig::Recurrent(c) => Some(Self::Recurrent(c.language_model(inputs))),
            _ => None,
        }
    }

    /// The network that acts.
    pub fn network(&self) -> &dyn LanguageModel {
        match self {
            Self::Decoder(network) => network,
            Self::Recurrent(network) => network,
        }
    }
}
