//! What continues texts: the decoder of transformers, and recurrent language models.

use super::decoder::{Decoder, DecoderInput};
use super::heads::VocabularyHead;
use super::recurrent::RecurrentLm;
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use burn::tensor::{Device, Tensor};
use std::fmt::Debug;

/// A network that gives scores of the next token.
pub trait LanguageModel: Debug {
    /// What the model keeps between calls, before the first one.
    fn empty_state(&self, of: StateUse) -> ModelState;

    /// The longest input that the model can place, when it has a limit.
    fn max_len(&self) -> Option<usize>;

    /// Hidden states `[batch, seq, d_model]`; `state` continues where its last call ended.
    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3>;

    /// The product onto the vocabulary.
    fn vocabulary_head(&self) -> VocabularyHead<'_>;

    /// Where its parameters live.
    fn device(&self) -> Device {
        self.vocabulary_head().embedding.weight.val().device()
    }
}

impl LanguageModel for Decoder {
    fn empty_state(&self, of: StateUse) -> ModelState {
        Self::empty_state(self, of)
    }

    fn max_len(&self) -> Option<usize> {
        Self::max_len(self)
    }

    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        Self::forward(self, input, state, pass)
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        Self::vocabulary_head(self)
    }
}

impl LanguageModel for RecurrentLm {
    fn empty_state(&self, _: StateUse) -> ModelState {
        Self::empty_state(self)
    }

    fn max_len(&self) -> Option<usize> {
        None
    }

    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        Self::forward(self, input, state, pass)
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        Self::vocabulary_head(self)
    }
}
