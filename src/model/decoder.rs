//! The decoder-only language model: embeddings, a causal stack, a product onto the vocabulary.
//!
//! With its keys it is GPT (post-norm), GPT-2 (pre-norm), LLaMA (RMS norm, rotary, gated), Falcon and GPT-NeoX
//! (parallel), MPT and BLOOM (linear biases) and everything between.

use super::{Keys, ModelInputs, keys};
use crate::model::heads::VocabularyHead;
use crate::nn::Kind;
use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::embed::Embedding;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::{Init, InitConfig, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::NormConfig;
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Position, PositionConfig, Span};
use crate::stack::block::BlockCache;
use crate::stack::{NormPlacement, Stack, StackContext};
use burn::module::Module;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "decoder",
    summary: "decoder-only language model: GPT, GPT-2, GPT-3, LLaMA, Falcon and what lies between",
    source: "Radford et al. 2018, 2019; Touvron et al. 2023",
    example: "kind = \"decoder\"\nn_layers = 4\nd_model = 128",
};

/// The knobs of a decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecoderConfig {
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
    /// Whether parallel layers share one norm (Falcon-7B, GPT-J) or have one each (GPT-NeoX).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_parallel_norm: Option<bool>,
    /// Whether the embeddings are normalised (BLOOM).
    pub embedding_norm: bool,
    /// Whether the embeddings are multiplied by √d_model.
    pub embedding_scale: bool,
    /// How the model knows where a token stands.
    pub position: PositionConfig,
    /// Every attention.
    pub attention: AttentionConfig,
    /// Every feed-forward layer.
    pub feed_forward: FeedForwardConfig,
    /// Whether the product onto the vocabulary uses the embeddings' table.
    pub tie_embeddings: bool,
    /// Whether an untied product onto the vocabulary has a bias (GPT-J).
    pub head_bias: bool,
    /// Whether the hidden state is multiplied by 1/√d_model before the vocabulary (T5 v1.0).
    pub head_scale: bool,
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

impl Default for DecoderConfig {
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
            position: PositionConfig::default(),
            attention: AttentionConfig::default(),
            feed_forward: FeedForwardConfig::default(),
            tie_embeddings: true,
            head_bias: false,
            head_scale: false,
            dropout: 0.0,
            dropout_embedding: None,
            dropout_attention: None,
            dropout_residual: None,
            drop_path: 0.0,
            init: InitConfig::default(),
        }
    }
}

impl DecoderConfig {
    /// What it has in common with other transformers.
    pub fn keys(&self) -> Keys<'_> {
        keys!(self, [Some(("n_layers", self.n_layers)), None])
    }

    /// Builds the network; its parameters are drawn when they are first used.
    pub fn init(&self, inputs: &ModelInputs) -> Decoder {
        let keys = self.keys();
        let (alpha, beta) = self.norm_placement.alpha_beta(self.n_layers);
        let init = Init::new(
            inputs.device,
            inputs.seed,
            &self.init,
            2 * self.n_layers,
            beta,
        );
        let shape = keys.stack(self.n_layers, alpha);
        let position = keys.position_shape(self.n_layers, inputs.shape.context, true);
        let root = (self.d_model as f64).sqrt();
        let norm = self.embedding_norm.then_some(&self.norm);
        let scale = if self.embedding_scale { root } else { 1.0 };
        let vocab = inputs.shape.vocab_size;
        Decoder {
            embedding: Embedding::new(vocab, self.d_model, scale, norm, &init.of("embedding")),
            position: self.position.init(&position, &init.of("position")),
            stack: Stack::new(&shape, &init.of("stack")),
            head: (!self.tie_embeddings).then(|| {
                Linear::new(
                    self.d_model,
                    vocab,
                    self.head_bias,
                    Role::Head,
                    &init.of("head"),
                )
            }),
            dropout: shape.dropout.embedding,
            head_factor: if self.head_scale { 1.0 / root } else { 1.0 },
        }
    }
}

/// A decoder-only language model.
#[derive(Module, Debug)]
pub struct Decoder {
    /// Token vectors.
    pub embedding: Embedding,
    /// How the model knows where a token stands.
    pub position: Position,
    /// The blocks.
    pub stack: Stack,
    /// The untied product onto the vocabulary.
    pub head: Option<Linear>,
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

/// Keys and values of the tokens already read, one entry for each layer.
#[derive(Clone, Debug)]
pub struct DecoderCache {
    layers: Vec<BlockCache>,
}

impl DecoderCache {
    /// Tokens read.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.own.len())
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for so many tokens in all when it next grows.
    pub fn reserve(&mut self, tokens: usize) {
        for layer in &mut self.layers {
            layer.own.reserve(tokens);
        }
    }

    /// The same cache for other rows: row i becomes that of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        for layer in &mut self.layers {
            layer.select(rows);
        }
    }
}

impl Decoder {
    /// An empty cache for this model.
    pub fn cache(&self) -> DecoderCache {
        DecoderCache {
            layers: vec![BlockCache::default(); self.stack.blocks.len()],
        }
    }

    /// The longest input that the model can place, when it has a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.position.scheme().max_len()
    }

    /// Hidden states `[batch, seq, d_model]` after the last norm.
    pub fn forward(
        &self,
        input: DecoderInput,
        cache: Option<&mut DecoderCache>,
        pass: &Pass,
    ) -> Tensor<3> {
        let [_, seq] = input.ids.dims();
        let device = input.ids.device();
        let offset = cache.as_ref().map_or(0, |cache| cache.len());
        let scheme = self.position.scheme();
        let places = Places {
            offset,
            ids: input.positions,
        };
        let span = Span {
            queries: seq,
            keys: offset + seq,
            offset,
        };
        let x = scheme.embed(self.embedding.forward(input.ids), &places);
        let x = pass.dropout(x, self.dropout);
        let context = StackContext {
            scheme,
            places: &places,
            prepared: &scheme.prepare(span, &device),
            visible: &input.visible,
            memory: None,
            cache: cache.map(|cache| cache.layers.as_mut_slice()),
            pass,
        };
        self.stack.forward(x, context)
    }

    /// Scores of the vocabulary `[batch, seq, vocab]` from hidden states.
    pub fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.vocabulary_head().logits(hidden)
    }

    /// The product onto the vocabulary.
    pub fn vocabulary_head(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            factor: self.head_factor,
        }
    }
}
