//! The encoder: every position sees every other one (Devlin et al. 2018, BERT; Liu et al. 2019, RoBERTa).
//!
//! Token, segment and position vectors are added, optionally normalised, and go through a stack without a
//! causal mask. Embeddings narrower than the stack are projected onto its width first: the factorised embeddings of
//! ALBERT, also of ELECTRA and RoFormer. Heads for tokens or whole texts are in [`super::heads`].

mod config;
mod facts;
pub mod pooler;

use super::BuildContext;
use crate::kernel::{Globals, Visibility};
use crate::nn::embed::{Embedding, segment_vectors};
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::{ActsOn, FROM_START, Position, PositionShape, TokenPositions};
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use crate::stack::{Stack, StackShape};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
pub(super) use config::USES;
pub use config::{EncoderConfig, KIND};
use pooler::{PoolerInput, TokenTransform};

impl EncoderConfig {
    /// Builds the network; its parameters are drawn at their first use.
    pub fn init(&self, inputs: &BuildContext) -> Encoder {
        let (config, depth) = (&self.stack, self.depth());
        let (d, width, blocks) = (config.d_model, self.d_embedding(), depth.blocks());
        let (alpha, beta) = config.norm_placement.alpha_beta(blocks);
        let init = Init::new(
            inputs.device,
            inputs.seed,
            config.init_settings(),
            2 * blocks,
            beta,
        );
        let position = PositionShape {
            // Position vectors added to the embeddings have the embeddings' width; positions inside blocks have the blocks'.
            d_model: match config.position.facts().acts_on() {
                ActsOn::Embeddings => width,
                ActsOn::Layers | ActsOn::Heads(_) => d,
            },
            ..config.position_shape(&depth, inputs.shape.context)
        };
        let shape = StackShape {
            config,
            depth,
            alpha,
            context: inputs.shape.context,
            d_memory: None,
        };
        let scale = match self.embedding_scale {
            true => (width as f64).sqrt(),
            false => 1.0,
        };
        let vocab = inputs.shape.vocab_size;
        Encoder {
            embedding: Embedding::new(vocab, width, scale, None, &init.part("embedding")),
            segments: (self.segments > 0)
                .then(|| init.part("segments").table(self.segments, width)),
            position: config.position.init(&position, &init.part("position")),
            embedding_norm: self.embedding_norm.then(|| config.norm.init(width, &init)),
            projection: self.d_embedding.map(|width| {
                Linear::new(width, d, true, MatrixRole::Inner, &init.part("projection"))
            }),
            stack: Stack::new(&shape, &init.part("stack")),
            pooler: self.pooler.then(|| {
                Linear::new(
                    config.d_output(),
                    d,
                    self.pooler_bias,
                    MatrixRole::Inner,
                    &init.part("pooler"),
                )
            }),
            pooler_activation: self.pooler_activation,
            pooler_norm: (self.pooler && self.pooler_norm).then(|| config.norm.init(d, &init)),
            pooler_input: self.pooler_input,
            token_transform: self
                .token_transform
                .then(|| TokenTransform::new(self, &init.part("token_transform"))),
            dropout: config.dropouts().embedding,
            dropout_after_projection: self.dropout_after_projection,
        }
    }
}

/// Places of the parameters of [`Encoder`].
pub const ROLES: Roles = Roles::new(
    "Encoder",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("position", Declaration::Place(Place::Position)),
        ("embedding_norm", Declaration::Place(Place::Input)),
        ("projection", Declaration::Place(Place::Input)),
        ("segments", TABLE),
        ("segments", Declaration::Place(Place::Input)),
        ("pooler", Declaration::Place(Place::Head)),
        ("pooler_norm", Declaration::Place(Place::Head)),
        ("token_transform", Declaration::Place(Place::Head)),
    ],
);

/// A bidirectional encoder.
#[derive(Module, Debug)]
pub struct Encoder {
    /// The embedding of tokens.
    pub embedding: Embedding,
    /// The embedding of segments, `[segments, d_embedding]`.
    pub segments: Option<Param<Tensor<2>>>,
    /// The position scheme.
    pub position: Position,
    /// The norm of the summed embeddings.
    pub embedding_norm: Option<Norm>,
    /// Projection from the embeddings' width to the stack's.
    pub projection: Option<Linear>,
    /// The blocks.
    pub stack: Stack,
    /// The dense layer that computes the pooled vector of a text.
    pub pooler: Option<Linear>,
    #[module(skip)]
    pooler_activation: Option<Activation>,
    /// The norm after the pooler's activation.
    pub pooler_norm: Option<Norm>,
    #[module(skip)]
    pooler_input: PoolerInput,
    /// The transform before token-level heads.
    pub token_transform: Option<TokenTransform>,
    pub(super) dropout: f64,
    pub(super) dropout_after_projection: bool,
}

/// The input of an encoder.
#[derive(Clone, Debug)]
pub struct EncoderInput {
    /// Token ids `[batch, seq]`.
    pub ids: Tensor<2, Int>,
    /// Segment of each token `[batch, seq]`; the first one everywhere when absent.
    pub segments: Option<Tensor<2, Int>>,
    /// Number of tokens in each row, if some rows are padded.
    pub lengths: Option<Vec<usize>>,
    /// Positions of each row that are global in attention.
    pub globals: Option<Globals>,
}

/// The masks and positions of an input, which the blocks need besides its embeddings.
#[derive(Clone, Debug)]
pub struct MasksAndPositions {
    /// Which tokens see each other.
    pub visible: Visibility,
    /// Position and segment ids of the tokens.
    pub positions: TokenPositions,
}

impl EncoderInput {
    /// Returns the masks and positions of the input.
    pub fn masks_and_positions(&self) -> MasksAndPositions {
        let lengths = self.lengths.as_deref();
        MasksAndPositions {
            visible: Visibility {
                globals: self.globals.clone(),
                ..lengths.map(Visibility::from_lengths).unwrap_or_default()
            },
            positions: TokenPositions {
                segments: self.segments.clone(),
                ..FROM_START.clone()
            },
        }
    }
}

impl Encoder {
    /// Returns the pooler's input; without a pooler, it is the text's default vector.
    pub fn pooler_input(&self) -> PoolerInput {
        self.pooler_input
    }

    /// The longest text that it can read, if there is a limit.
    pub fn max_len(&self) -> Option<usize> {
        let placed = self.position.scheme().max_len();
        placed.into_iter().chain(self.stack.max_len()).min()
    }

    /// Computes hidden states `[batch, seq, d_model]` after the last norm.
    pub fn forward(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let seen = input.masks_and_positions();
        let x = self.embed(input, pass);
        self.run_blocks(x, &seen, pass)
    }

    /// Computes the embeddings: the sum of token, segment and position vectors, `[batch, seq, d_embedding]`, normalised if so
    /// configured.
    pub fn embed(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let x = self.embedding.forward(input.ids.clone());
        self.embed_token_vectors(x, input, pass)
    }

    /// Computes [`Self::embed`] from the given token vectors `x`.
    pub fn embed_token_vectors(&self, x: Tensor<3>, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let [batch, seq] = input.ids.dims();
        let x = self.position.embed(x, &FROM_START, pass);
        let x = match &self.segments {
            Some(table) => x + segment_vectors(table.val(), input.segments, batch, seq),
            None => x,
        };
        let x = match &self.embedding_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        match self.dropout_after_projection {
            true => x,
            false => pass.dropout(x, "embedding", self.dropout),
        }
    }
}
