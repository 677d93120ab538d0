//! The decoder-only language model: embeddings, a causal stack, an LM head.
//!
//! Its keys cover GPT (post-norm), GPT-2 (pre-norm), LLaMA (RMS norm, rotary, gated), Falcon and GPT-NeoX
//! (parallel), MPT and BLOOM (linear biases) and everything between.

mod config;
mod facts;

use super::Use;
pub use super::decoder_pass::DecoderInput;
use super::retrieval::NeighbourEncoder;
use crate::nn::Kind;
use crate::nn::position::Position;
use crate::nn::role::{Declaration, Place, Roles, StackSide};
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use crate::stack::Stack;
use burn::module::Module;
pub use config::DecoderConfig;

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "decoder",
    summary: "decoder-only language model: GPT, GPT-2, GPT-3, LLaMA, Falcon and related architectures",
    source: "Radford et al. 2018, 2019; Touvron et al. 2023",
    example: "kind = \"decoder\"\nn_layers = 4\nd_model = 128",
};

/// The uses that a decoder serves.
pub(super) const USES: &[Use] = &[
    Use::NextTokens,
    Use::TextToText,
    Use::TextClasses,
    Use::TextRegression,
    Use::TextEmbeddings,
    Use::TokenClasses,
];

/// Places of the parameters of [`Decoder`].
pub const ROLES: Roles = Roles::new(
    "Decoder",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("position", Declaration::Place(Place::Position)),
        ("head", Declaration::Place(Place::TokenHead)),
        ("retrieval", Declaration::Side(StackSide::Encoder)),
    ],
);

/// A decoder-only language model.
#[derive(Module, Debug)]
pub struct Decoder {
    /// The embedding of tokens.
    pub embedding: TokenVectors,
    /// The position scheme.
    pub position: Position,
    /// The blocks.
    pub stack: Stack,
    /// The LM head's own parameters, besides those of the embedding.
    pub head: Option<TokenHead>,
    /// The encoder of retrieved neighbours.
    pub retrieval: Option<NeighbourEncoder>,
    pub(super) dropout: f64,
    pub(super) head_factor: f64,
    pub(super) head_softcap: Option<f64>,
}
