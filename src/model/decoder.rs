//! The decoder-only language model: embeddings, a causal stack, a product onto the vocabulary.
//!
//! With its keys it is GPT (post-norm), GPT-2 (pre-norm), LLaMA (RMS norm, rotary, gated), Falcon and GPT-NeoX
//! (parallel), MPT and BLOOM (linear biases) and everything between.

mod config;

use super::retrieval::NeighbourEncoder;
use super::{LanguageModel, Use};
use crate::model::heads::VocabularyHead;
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::neighbours::Neighbours;
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Position, Span};
use crate::nn::role::{Place, Roles, Says, Side};
use crate::nn::state::StateUse;
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use crate::stack::retrieved::Retrieved;
use crate::stack::{Memory, ModelState, Stack, StackContext};
use burn::module::Module;
use burn::tensor::{Int, Tensor};
pub use config::DecoderConfig;

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "decoder",
    summary: "decoder-only language model: GPT, GPT-2, GPT-3, LLaMA, Falcon and what lies between",
    source: "Radford et al. 2018, 2019; Touvron et al. 2023",
    example: "kind = \"decoder\"\nn_layers = 4\nd_model = 128",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[
    Use::NextTokens,
    Use::TextToText,
    Use::TextClasses,
    Use::TextNumbers,
    Use::TextVectors,
    Use::TokenClasses,
];

/// What the parameters of [`Decoder`] are.
pub const ROLES: Roles = Roles::new(
    "Decoder",
    &[
        ("embedding", Says::Stands(Place::Tokens)),
        ("position", Says::Stands(Place::Position)),
        ("head", Says::Stands(Place::TokenHead)),
        ("retrieval", Says::In(Side::Reads)),
    ],
);

/// A decoder-only language model.
#[derive(Module, Debug)]
pub struct Decoder {
    /// Token vectors.
    pub embedding: TokenVectors,
    /// How the model knows where a token stands.
    pub position: Position,
    /// The blocks.
    pub stack: Stack,
    /// The parameters of the product onto the vocabulary beside those of its vectors.
    pub head: Option<TokenHead>,
    /// What encodes the neighbours of its text.
    pub retrieval: Option<NeighbourEncoder>,
    dropout: f64,
    head_factor: f64,
}

/// What a decoder reads.
#[derive(Clone, Debug)]
pub struct DecoderInput {
    /// Token ids `[batch, seq]`.
    pub ids: Tensor<2, Int>,
    /// Position of each token in its document `[batch, seq]`, where rows hold several documents.
    pub positions: Option<Tensor<2, Int>>,
    /// Which tokens see each other.
    pub visible: Visibility,
    /// The neighbours of the chunks that end in these tokens. A model without retrieval passes them over, and one with it reads
    /// none when absent.
    pub neighbours: Option<Neighbours>,
}

impl DecoderInput {
    /// Tokens of one document in each row, which see those before them.
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

    fn reads_on(&self) -> bool {
        self.stack.reads_on()
    }

    fn forward(
        &self,
        input: DecoderInput,
        mut state: Option<&mut ModelState>,
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
        let texts = self.retrieval.as_ref().zip(input.neighbours.as_ref());
        let encoding =
            texts.map(|(encoder, texts)| (encoder.of(&self.embedding, &self.position), texts));
        let retrieved = encoding.as_ref().map(|(encoding, texts)| {
            let chunks = state
                .as_mut()
                .map(|state| std::mem::take(&mut state.chunks));
            let turned = encoding.turned(texts);
            Retrieved::new(texts, encoding, offset, turned, chunks.unwrap_or_default())
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
            places: &places,
            span,
            visible: &input.visible,
            memory: retrieved.as_ref().map(Memory::Neighbours),
            state: layers,
            pass,
        };
        let x = self.stack.forward(x, context);
        if let (Some(kept), Some(retrieved)) = (chunks, retrieved) {
            *kept = retrieved.into_kept();
        }
        x
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
