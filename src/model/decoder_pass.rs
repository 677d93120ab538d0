//! The forward pass of a decoder: its input, and the way of its texts through embeddings, positions and blocks.

use super::LanguageModel;
use super::decoder::Decoder;
use crate::model::heads::VocabularyHead;
use crate::nn::attention::Visibility;
use crate::nn::neighbours::Neighbours;
use crate::nn::pass::Pass;
use crate::nn::position::{Span, TokenPositions};
use crate::nn::state::StateUse;
use crate::stack::retrieved::RetrievedContext;
use crate::stack::{BeforeBlock, Memory, ModelState, StackContext};
use burn::tensor::{Int, Tensor};

/// The input of a decoder.
#[derive(Clone, Debug)]
pub struct DecoderInput {
    /// Token ids `[batch, seq]`.
    pub ids: Tensor<2, Int>,
    /// Position of each token in its document `[batch, seq]`, if rows hold several documents.
    pub positions: Option<Tensor<2, Int>>,
    /// Which tokens see each other.
    pub visible: Visibility,
    /// The neighbours of the chunks that end in these tokens. A model without retrieval ignores them; a model with retrieval
    /// reads no neighbours if they are absent.
    pub neighbours: Option<Neighbours>,
}

impl DecoderInput {
    /// Builds an input of one document per row, with a causal mask.
    pub fn new(ids: Tensor<2, Int>) -> Self {
        Self {
            ids,
            positions: None,
            visible: Visibility::causal(),
            neighbours: None,
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

    fn has_bounded_state(&self) -> bool {
        self.stack.has_bounded_state()
    }

    fn cache_is_stale_after(&self, seen: usize) -> bool {
        self.position.scheme().rotation_changes_after(seen)
            || self.stack.rotation_changes_after(seen)
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
            softcap: self.head_softcap,
        }
    }
}

impl Decoder {
    /// Computes hidden states `[batch, seq, d_model]` after the last norm, with `between` applied before each block; `state`
    /// continues where its last call ended.
    pub fn forward_with(
        &self,
        between: Option<&dyn BeforeBlock>,
        input: DecoderInput,
        mut state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let [_, seq] = input.ids.dims();
        let offset = state.as_ref().map_or(0, |state| state.seen);
        let places = TokenPositions {
            offset,
            ids: input.positions,
            segments: None,
        };
        let span = Span {
            queries: seq,
            keys: offset + seq,
            offset,
        };
        let x = self.embedding.forward(input.ids);
        let x = self.position.embed(x, &places, pass);
        let x = pass.dropout(x, "embedding", self.dropout);
        let texts = self.retrieval.as_ref().zip(input.neighbours.as_ref());
        let encoding =
            texts.map(|(encoder, texts)| (encoder.bind(&self.embedding, &self.position), texts));
        let retrieved = encoding.as_ref().map(|(encoding, texts)| {
            let chunks = state
                .as_mut()
                .map(|state| std::mem::take(&mut state.chunks));
            let turned = encoding.rotations(texts);
            RetrievedContext::new(texts, encoding, offset, turned, chunks.unwrap_or_default())
        });
        let (layers, chunks) = match state {
            Some(state) => {
                state.seen += seq;
                (Some(state.layers.as_mut_slice()), Some(&mut state.chunks))
            }
            None => (None, None),
        };
        let context = StackContext {
            position: &self.position,
            token_positions: &places,
            span,
            visible: &input.visible,
            memory: retrieved.as_ref().map(Memory::Neighbours),
            before_blocks: between,
            state: layers,
            pass,
        };
        let x = self.stack.forward(x, context);
        if let (Some(kept), Some(retrieved)) = (chunks, retrieved) {
            *kept = retrieved.into_state();
        }
        x
    }
}
