//! Retrieval-enhanced decoders: some blocks attend to the encoded neighbours of a text's chunks (Borgeaud et al. 2022, RETRO,
//! section 2.4 and algorithm 1).
//!
//! `stack/retrieved.rs` cuts texts into chunks and applies chunked cross-attention; this module holds the neighbour encoder, a
//! bidirectional stack. It reads each neighbour with the decoder's token embedding, and its cross-attention attends to the
//! decoder's stream of the chunk for which the neighbour was retrieved. If positions rotate queries and keys, those of
//! cross-attention are rotated too: a neighbour's tokens have positions 0 … 2m − 1, a chunk's 0 … m − 1 for the encoder, and the
//! m tokens that attend to its neighbours m − 1 … 2m − 2, which are their positions counted from the beginning of their chunk.

mod config;
mod encoder;

use super::decoder::DecoderConfig;
use crate::nn::attention::Visibility;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::neighbours::Neighbours;
use crate::nn::pass::Pass;
use crate::nn::position::{FROM_START, Position, Rotation, Span};
use crate::nn::role::{Declaration, Place, Roles};
use crate::nn::vocabulary::TokenVectors;
use crate::stack::retrieved::ChunkEncoder;
use crate::stack::{Memory, MemoryStates, Stack, StackContext, StackShape};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
pub use config::RetrievalConfig;
pub use encoder::NeighbourEncoderConfig;

/// Places of the parameters of [`NeighbourEncoder`].
pub const ROLES: Roles = Roles::new(
    "NeighbourEncoder",
    &[
        ("input", Declaration::Place(Place::Input)),
        ("position", Declaration::Place(Place::Position)),
    ],
);

/// The encoder of retrieved neighbours.
#[derive(Module, Debug)]
pub struct NeighbourEncoder {
    /// Projection of the decoder's token vectors onto the encoder's width, if the widths differ.
    pub input: Option<Linear>,
    /// The position scheme within a neighbour.
    pub position: Position,
    /// The blocks.
    pub stack: Stack,
    dropout: f64,
}

impl NeighbourEncoder {
    /// Builds the neighbour encoder of a decoder.
    pub(super) fn new(config: &RetrievalConfig, of: &DecoderConfig, init: &Init) -> Self {
        let stack = config.encoder.stack(&of.stack);
        let depth = config.encoder.depth(&stack);
        let (d, d_model) = (stack.d_model, of.stack.d_model);
        let context = config.neighbour_width();
        let shape = StackShape {
            config: &stack,
            depth,
            alpha: 1.0,
            context,
            d_memory: (d != d_model).then_some(d_model),
        };
        let position = stack.position_shape(&depth, context);
        let scaled = init
            .part("stack")
            .with_residual_scaling(3 * depth.blocks(), 1.0);
        Self {
            input: (d != d_model)
                .then(|| Linear::new(d_model, d, false, MatrixRole::Inner, &init.part("input"))),
            position: stack.position.init(&position, &init.part("position")),
            stack: Stack::new(&shape, &scaled),
            dropout: stack.dropouts().embedding,
        }
    }

    /// Combines the encoder with the embedding and position scheme of its decoder.
    pub(super) fn bind<'a>(
        &'a self,
        embedding: &'a TokenVectors,
        position: &'a Position,
    ) -> BoundEncoder<'a> {
        BoundEncoder {
            encoder: self,
            embedding,
            position,
        }
    }
}

/// A neighbour encoder with its decoder's embedding and position scheme.
#[derive(Debug)]
pub(super) struct BoundEncoder<'a> {
    encoder: &'a NeighbourEncoder,
    embedding: &'a TokenVectors,
    position: &'a Position,
}

/// Returns the rotation of `positions` positions starting at `first`.
fn rotation(of: &Position, first: usize, positions: usize, device: &Device) -> Option<Rotation> {
    let span = Span {
        queries: positions,
        keys: first + positions,
        offset: first,
    };
    of.scheme().prepare(span, device).rotation
}

impl BoundEncoder<'_> {
    /// Returns the rotations of the tokens that attend to neighbours, and of the tokens of all neighbours side by side.
    pub(super) fn rotations(&self, texts: &Neighbours) -> Option<[Rotation; 2]> {
        let device = self.embedding.device();
        let (m, width) = (texts.chunk, texts.width);
        let of_queries = rotation(self.position, m - 1, m, &device)?;
        let of_one = rotation(self.position, 0, width, &device)?;
        let of_keys = of_one.map(|table| Tensor::cat(vec![table; texts.count], 0));
        Some([of_queries, of_keys])
    }
}

impl ChunkEncoder for BoundEncoder<'_> {
    fn encode(&self, hidden: Tensor<3>, texts: &Neighbours, pass: &Pass) -> Tensor<3> {
        let encoder = self.encoder;
        let ([chunks, m, d], device) = (hidden.dims(), hidden.device());
        let (count, width) = (texts.count, texts.width);
        let rows = chunks * count;
        let ids: Tensor<2, Int> =
            Tensor::from_data(TensorData::new(texts.ids.clone(), [rows, width]), &device);
        let x = self.embedding.forward(ids);
        let x = match &encoder.input {
            Some(input) => input.forward(x),
            None => x,
        };
        let x = encoder.position.embed(x, &FROM_START, pass);
        let x = pass.dropout(x, "embedding", encoder.dropout);
        let hidden: Tensor<3> = hidden.reshape([chunks, 1, m * d]);
        let hidden = hidden.expand([chunks, count, m * d]).reshape([rows, m, d]);
        let turned = rotation(&encoder.position, 0, width, &device)
            .zip(rotation(&encoder.position, 0, m, &device))
            .map(|(of_queries, of_keys)| [of_queries, of_keys]);
        // A missing neighbour is encoded too, but nothing attends to it.
        let whole = texts.lengths.iter().all(|length| *length == width);
        let lengths = || {
            texts
                .lengths
                .iter()
                .map(|length| (*length).max(1))
                .collect()
        };
        let visible = Visibility {
            lengths: (!whole).then(lengths),
            ..Visibility::ALL
        };
        let context = StackContext {
            position: &encoder.position,
            token_positions: &FROM_START,
            span: Span::full(width),
            visible: &visible,
            before_blocks: None,
            state: None,
            memory: Some(Memory::States(MemoryStates {
                states: &hidden,
                visible: &Visibility::ALL,
                rotations: turned.as_ref(),
            })),
            pass,
        };
        let x = encoder.stack.forward(x, context);
        let [_, _, d_encoder] = x.dims();
        x.reshape([chunks, count * width, d_encoder])
    }
}
