//! A pass through a decoder: what it reads, and how its texts go through embeddings, positions and blocks.

use super::LanguageModel;
use super::decoder::Decoder;
use crate::model::heads::VocabularyHead;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Span};
use crate::nn::state::StateUse;
use crate::stack::{Between, ModelState, StackContext};
use burn::tensor::{Int, Tensor};

/// What a decoder reads.
#[derive(Clone, Debug)]
pub struct DecoderInput {
    /// Token ids `[batch, seq]`.
    pub ids: Tensor<2, Int>,
    /// Position of each token in its document `[batch, seq]`, where rows hold several documents.
    pub positions: Option<Tensor<2, Int>>,
    /// Which tokens see each other.
    pub visible: Visibility,
}

impl DecoderInput {
    /// Tokens of one document in each row, which see those before them.
    pub fn new(ids: Tensor<2, Int>) -> Self {
        Self {
            ids,
            positions: None,
            visible: Visibility::causal(),
        }
    }
}

impl LanguageModel for Decoder {
    fn empty_state(&self, of: StateUse) -> ModelState {
        self.stack.empty_state(of)
    }

    fn max_len(&self) -> Option<usize> {
        self.position.scheme().max_len()
    }

    fn reads_on(&self) -> bool {
        self.stack.reads_on()
    }

    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        self.forward_with(None, input, state, pass)
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            bias: None,
            factor: self.head_factor,
        }
    }
}

impl Decoder {
    /// Hidden states `[batch, seq, d_model]` after the last norm, with work between the blocks; `state` continues where its
    /// last call ended.
    pub fn forward_with(
        &self,
        between: Option<&dyn Between>,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let [_, seq] = input.ids.dims();
        let offset = state.as_ref().map_or(0, |state| state.seen);
        let places = Places {
            offset,
            ids: input.positions,
        };
        let span = Span {
            queries: seq,
            keys: offset + seq,
            offset,
        };
        let x = self.embedding.forward(input.ids);
        let x = self.position.embed(x, &places, pass);
        let x = pass.dropout(x, "embedding", self.dropout);
        let state = state.map(|state| {
            state.seen += seq;
            state.layers.as_mut_slice()
        });
        let context = StackContext {
            position: &self.position,
            places: &places,
            span,
            visible: &input.visible,
            memory: None,
            between,
            state,
            pass,
        };
        self.stack.forward(x, context)
    }
}
