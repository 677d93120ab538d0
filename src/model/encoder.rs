//! The encoder: every position sees every other one (Devlin et al. 2018, BERT; Liu et al. 2019, RoBERTa).
//!
//! Token, segment and position vectors are added, normalised when asked for, and go through a stack without a
//! causal mask. Heads that score tokens or whole texts stand in [`super::heads`].

use super::{Keys, ModelInputs, keys};
use crate::kernel;
use crate::nn::Kind;
use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::embed::Embedding;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::{Init, InitConfig, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Position, PositionConfig, Span};
use crate::stack::{NormPlacement, Stack, StackContext};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, activation};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "encoder",
    summary: "bidirectional encoder: BERT, RoBERTa and what lies between",
    source: "Devlin et al. 2018; Liu et al. 2019",
    example: "kind = \"encoder\"\nn_layers = 4\nd_model = 256\nnorm_placement = \"post\"\nembedding_norm = true\npooler = true",
};

/// The knobs of an encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderConfig {
    /// Number of blocks.
    pub n_layers: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Every norm.
    pub norm: NormConfig,
    /// Where norms stand.
    pub norm_placement: NormPlacement,
    /// Whether a norm follows the last block; as the placement wants it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<bool>,
    /// Whether parallel layers share one norm or have one each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_parallel_norm: Option<bool>,
    /// Whether the sum of token, position and segment vectors is normalised (BERT).
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by √d_model.
    pub embedding_scale: bool,
    /// Vectors for segments: 2 tell the two texts of a pair apart, 0 for none.
    pub segments: usize,
    /// Whether tanh(W·first position + b) stands for the whole text (BERT); its first position itself otherwise.
    pub pooler: bool,
    /// How the model knows where a token stands.
    pub position: PositionConfig,
    /// Every attention.
    pub attention: AttentionConfig,
    /// Every feed-forward layer.
    pub feed_forward: FeedForwardConfig,
    /// Whether the product onto the vocabulary uses the embeddings' table.
    pub tie_embeddings: bool,
    /// Whether a dense layer, GELU and a norm come before the product onto the vocabulary (BERT).
    pub head_transform: bool,
    /// Whether the product onto the vocabulary has a bias.
    pub head_bias: bool,
    /// Every dropout that has no key of its own.
    pub dropout: f64,
    /// Dropout on the embeddings; `dropout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_embedding: Option<f64>,
    /// Dropout on attention weights; `dropout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_attention: Option<f64>,
    /// Dropout on each layer's result; `dropout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_residual: Option<f64>,
    /// Probability that a row skips a layer, rising linearly to this at the last one.
    pub drop_path: f64,
    /// How the initial weights are drawn.
    pub init: InitConfig,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            n_layers: 4,
            d_model: 128,
            norm: NormConfig::default(),
            norm_placement: NormPlacement::Pre,
            final_norm: None,
            shared_parallel_norm: None,
            embedding_norm: false,
            embedding_scale: false,
            segments: 2,
            pooler: false,
            position: PositionConfig::default(),
            attention: AttentionConfig::default(),
            feed_forward: FeedForwardConfig::default(),
            tie_embeddings: true,
            head_transform: true,
            head_bias: true,
            dropout: 0.0,
            dropout_embedding: None,
            dropout_attention: None,
            dropout_residual: None,
            drop_path: 0.0,
            init: InitConfig::default(),
        }
    }
}

impl EncoderConfig {
    /// What it has in common with other transformers.
    pub fn keys(&self) -> Keys<'_> {
        keys!(self, [Some(("n_layers", self.n_layers)), None])
    }

    /// Builds the network; its parameters are drawn when they are first used.
    pub fn init(&self, inputs: &ModelInputs) -> Encoder {
        let keys = self.keys();
        let (alpha, beta) = self.norm_placement.alpha_beta(self.n_layers);
        let residuals = 2 * self.n_layers;
        let init = Init::new(inputs.device, inputs.seed, &self.init, residuals, beta);
        let position = keys.position_shape(self.n_layers, inputs.shape.context, false);
        let scale = match self.embedding_scale {
            true => (self.d_model as f64).sqrt(),
            false => 1.0,
        };
        let d = self.d_model;
        Encoder {
            embedding: Embedding::new(
                inputs.shape.vocab_size,
                d,
                scale,
                None,
                &init.of("embedding"),
            ),
            segments: (self.segments > 0).then(|| {
                init.of("segments")
                    .matrix(self.segments, d, Role::Embedding)
            }),
            position: self.position.init(&position, &init.of("position")),
            embedding_norm: self.embedding_norm.then(|| self.norm.init(d, &init)),
            stack: Stack::new(&keys.stack(self.n_layers, alpha), &init.of("stack")),
            pooler: self
                .pooler
                .then(|| Linear::new(d, d, true, Role::Inner, &init.of("pooler"))),
            dropout: keys.dropouts().embedding,
        }
    }
}

/// A bidirectional encoder.
#[derive(Module, Debug)]
pub struct Encoder {
    /// Token vectors.
    pub embedding: Embedding,
    /// Segment vectors `[segments, d_model]`.
    pub segments: Option<Param<Tensor<2>>>,
    /// How the model knows where a token stands.
    pub position: Position,
    /// On the sum of the vectors.
    pub embedding_norm: Option<Norm>,
    /// The blocks.
    pub stack: Stack,
    /// What makes one vector of a text.
    pub pooler: Option<Linear>,
    dropout: f64,
}

/// What an encoder reads.
#[derive(Clone, Debug)]
pub struct EncoderInput {
    /// Token ids `[batch, seq]`.
    pub ids: Tensor<2, Int>,
    /// Segment of each token `[batch, seq]`; the first one everywhere when absent.
    pub segments: Option<Tensor<2, Int>>,
    /// Tokens of each row, when some rows are filled up.
    pub lengths: Option<Vec<usize>>,
}

impl Encoder {
    /// Hidden states `[batch, seq, d_model]` after the last norm.
    pub fn forward(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let [batch, seq] = input.ids.dims();
        let device = input.ids.device();
        let scheme = self.position.scheme();
        let places = Places {
            offset: 0,
            ids: None,
        };
        let x = scheme.embed(self.embedding.forward(input.ids), &places);
        let x = match &self.segments {
            Some(table) => x + segment_vectors(table.val(), input.segments, batch, seq),
            None => x,
        };
        let x = match &self.embedding_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let span = Span {
            queries: seq,
            keys: seq,
            offset: 0,
        };
        let lengths = input.lengths.as_deref();
        let visible = lengths.map(Visibility::of_lengths).unwrap_or_default();
        let context = StackContext {
            scheme,
            places: &places,
            prepared: &scheme.prepare(span, &device),
            visible: &visible,
            cache: None,
            memory: None,
            pass,
        };
        self.stack.forward(pass.dropout(x, self.dropout), context)
    }

    /// One vector a text, `[batch, d_model]`, from its hidden states.
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        let [batch, _, d] = hidden.dims();
        let first = hidden.slice([0..batch, 0..1, 0..d]);
        let pooled = match &self.pooler {
            Some(pooler) => activation::tanh(pooler.forward(first)),
            None => first,
        };
        pooled.reshape([batch, d])
    }
}

/// Segment vectors `[batch, seq, d]`, or the first one's `[1, 1, d]`.
fn segment_vectors(
    table: Tensor<2>,
    segments: Option<Tensor<2, Int>>,
    batch: usize,
    seq: usize,
) -> Tensor<3> {
    let [_, d] = table.dims();
    match segments {
        Some(ids) => kernel::embedding(table, ids),
        None => table
            .slice([0..1, 0..d])
            .reshape([1, 1, d])
            .expand([batch, seq, d]),
    }
}
