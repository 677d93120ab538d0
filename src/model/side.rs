//! One of the two stacks of an encoder-decoder with its position scheme and norm, and how both sides are built for any input of
//! the encoder.

use super::source::Source;
use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::init::Init;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::{Position, PositionConfig, Span, TokenPositions};
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::{
    Depth, LayerGroup, Memory, ModelState, Stack, StackConfig, StackContext, StackShape,
};
use burn::module::Module;
use burn::tensor::Tensor;

/// Places of the parameters of [`Side`].
pub const ROLES: Roles = Roles::new(
    "Side",
    &[
        ("position", Declaration::Place(Place::Position)),
        ("embedding_norm", Declaration::Place(Place::Input)),
    ],
);

/// One of the two stacks of an encoder-decoder, with its position scheme and embedding norm.
#[derive(Module, Debug)]
pub struct Side {
    /// The position scheme.
    pub position: Position,
    /// The norm of the sum of token and position vectors.
    pub embedding_norm: Option<Norm>,
    /// The blocks.
    pub stack: Stack,
}

/// The depth of an encoder, with the keys of an encoder-decoder.
pub(super) fn encoder_depth(n_layers: Option<usize>, groups: &[LayerGroup]) -> Depth<'_> {
    Depth {
        key: "n_encoder_layers",
        causal: false,
        n_layers,
        groups_key: "encoder_layers",
        groups,
        cross: None,
        cross_in: None,
    }
}

/// The depth of a decoder that attends to an encoder's output, with the keys of an encoder-decoder.
pub(super) fn decoder_depth<'a>(
    n_layers: Option<usize>,
    groups: &'a [LayerGroup],
    cross: &'a AttentionConfig,
) -> Depth<'a> {
    Depth {
        key: "n_decoder_layers",
        causal: true,
        n_layers,
        groups_key: "decoder_layers",
        groups,
        cross: Some(cross),
        cross_in: None,
    }
}

/// The settings from which both sides of an encoder-decoder are built.
pub(super) struct SidesBuilder<'a> {
    pub stack: &'a StackConfig,
    pub encoder: Depth<'a>,
    pub decoder: Depth<'a>,
    pub embedding_norm: bool,
}

impl SidesBuilder<'_> {
    /// Builds the encoder, for up to `context` positions; `model` draws its parameters.
    pub fn encoder(&self, positions: &PositionConfig, context: usize, model: &Init) -> Side {
        let [(alpha, beta), _] = self.alpha_beta();
        let init = model
            .part("encoder")
            .with_residual_scaling(2 * self.encoder.blocks(), beta);
        self.build(self.encoder, (positions, context), alpha, &init)
    }

    /// Builds the decoder, for up to `context` positions; `model` draws its parameters.
    pub fn decoder(&self, positions: &PositionConfig, context: usize, model: &Init) -> Side {
        let [_, (alpha, beta)] = self.alpha_beta();
        let init = model
            .part("decoder")
            .with_residual_scaling(3 * self.decoder.blocks(), beta);
        self.build(self.decoder, (positions, context), alpha, &init)
    }

    fn alpha_beta(&self) -> [(f64, f64); 2] {
        let [n, m] = [self.encoder, self.decoder].map(|depth| depth.blocks());
        self.stack.norm_placement.alpha_beta_encoder_decoder(n, m)
    }

    fn build(
        &self,
        depth: Depth,
        (positions, context): (&PositionConfig, usize),
        alpha: f64,
        init: &Init,
    ) -> Side {
        let config = self.stack;
        let position = config.position_shape(&depth, context);
        let stack = StackShape {
            config,
            depth,
            alpha,
            context,
            d_memory: None,
        };
        let norm = || config.norm.init(config.d_model, init);
        Side {
            position: positions.init(&position, &init.part("position")),
            embedding_norm: self.embedding_norm.then(norm),
            stack: Stack::new(&stack, &init.part("stack")),
        }
    }
}

impl Side {
    /// Computes hidden states `[batch, seq, d_model]` of a decoder's embedded tokens; each sees those before it and the source.
    pub(super) fn decode(
        &self,
        x: Tensor<3>,
        dropout: f64,
        source: &Source,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let seen = source.visibility();
        let memory = Memory::without_positions(&source.states, &seen);
        let visible = Visibility::causal();
        pass.in_network("decoder", || {
            self.forward(x, dropout, &visible, Some(memory), state, pass)
        })
    }

    /// Computes hidden states of embedded tokens `x` `[batch, seq, d_model]`.
    pub(super) fn forward(
        &self,
        x: Tensor<3>,
        dropout: f64,
        visible: &Visibility,
        memory: Option<Memory>,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let [_, seq, _] = x.dims();
        let offset = state.as_ref().map_or(0, |state| state.seen);
        let places = TokenPositions {
            offset,
            ids: None,
            segments: None,
        };
        let x = self.position.embed(x, &places, pass);
        let x = match &self.embedding_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let state = state.map(|state| {
            state.seen += seq;
            state.layers.as_mut_slice()
        });
        let context = StackContext {
            position: &self.position,
            token_positions: &places,
            span: Span {
                queries: seq,
                keys: offset + seq,
                offset,
            },
            visible,
            state,
            memory,
            before_blocks: None,
            pass,
        };
        let x = pass.dropout(x, "embedding", dropout);
        self.stack.forward(x, context)
    }
}
