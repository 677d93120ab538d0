//! The encoder-decoder: a source is read at once, a target is written token by token (Vaswani et al. 2017).
//!
//! Every layer of the decoder looks at the encoder's final output. Embeddings may be shared three ways: source and
//! target (`share_embeddings`), target and the product onto the vocabulary (`tie_embeddings`).

pub use super::source::{EncoderDecoderCache, Source};
use super::{Keys, ModelInputs, keys};
use crate::model::heads::VocabularyHead;
use crate::nn::Kind;
use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::embed::Embedding;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::{Init, InitConfig, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Position, PositionConfig, PositionScheme, Span};
use crate::stack::block::BlockCache;
use crate::stack::{Memory, NormPlacement, Stack, StackContext};
use burn::module::Module;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "encoder_decoder",
    summary: "encoder-decoder: the 2017 Transformer and what lies around it",
    source: "Vaswani et al. 2017",
    example: "kind = \"encoder_decoder\"\nn_encoder_layers = 4\nn_decoder_layers = 4\nd_model = 128",
};

/// The knobs of an encoder-decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderDecoderConfig {
    /// Number of blocks of the encoder.
    pub n_encoder_layers: usize,
    /// Number of blocks of the decoder.
    pub n_decoder_layers: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Every norm.
    pub norm: NormConfig,
    /// Where norms stand.
    pub norm_placement: NormPlacement,
    /// Whether a norm follows the last block of either stack; as the placement wants it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<bool>,
    /// Whether parallel layers share one norm or have one each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_parallel_norm: Option<bool>,
    /// Whether the sum of token and position vectors is normalised (BART).
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by √d_model.
    pub embedding_scale: bool,
    /// How the model knows where a token stands, in either stack.
    pub position: PositionConfig,
    /// Every attention, cross-attention included.
    pub attention: AttentionConfig,
    /// Every feed-forward layer.
    pub feed_forward: FeedForwardConfig,
    /// Whether source and target have one table of embeddings.
    pub share_embeddings: bool,
    /// Whether the product onto the vocabulary uses the target's table.
    pub tie_embeddings: bool,
    /// Whether an untied product onto the vocabulary has a bias.
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

impl Default for EncoderDecoderConfig {
    fn default() -> Self {
        Self {
            n_encoder_layers: 4,
            n_decoder_layers: 4,
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
            share_embeddings: true,
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

impl EncoderDecoderConfig {
    /// What it has in common with other transformers.
    pub fn keys(&self) -> Keys<'_> {
        keys!(
            self,
            [
                Some(("n_encoder_layers", self.n_encoder_layers)),
                Some(("n_decoder_layers", self.n_decoder_layers)),
            ]
        )
    }

    /// Builds the network; its parameters are drawn when they are first used.
    pub fn init(&self, inputs: &ModelInputs) -> EncoderDecoder {
        let keys = self.keys();
        let (n, m) = (self.n_encoder_layers, self.n_decoder_layers);
        let [encoder, decoder] = self.norm_placement.alpha_beta_of_both(n, m);
        let model = Init::new(inputs.device, inputs.seed, &self.init, 1, 1.0);
        let (shape, d) = (inputs.shape, self.d_model);
        let scale = match self.embedding_scale {
            true => (d as f64).sqrt(),
            false => 1.0,
        };
        let position = |layers, causal| keys.position_shape(layers, shape.context, causal);
        let norm = |init: &Init| self.embedding_norm.then(|| self.norm.init(d, init));
        let source_vocab = shape.source_vocab_size.unwrap_or(shape.vocab_size);
        let target_embedding =
            Embedding::new(shape.vocab_size, d, scale, None, &model.of("embedding"));
        let source_embedding = (!self.share_embeddings)
            .then(|| Embedding::new(source_vocab, d, scale, None, &model.of("source_embedding")));
        let init = model.of("encoder").scaled(2 * n, encoder.1);
        let encoder = Side {
            position: self
                .position
                .init(&position(n, false), &init.of("position")),
            embedding_norm: norm(&init),
            stack: Stack::new(&keys.stack(n, encoder.0), &init.of("stack")),
        };
        let init = model.of("decoder").scaled(3 * m, decoder.1);
        let mut stack = keys.stack(m, decoder.0);
        stack.cross_attention = true;
        let decoder = Side {
            position: self.position.init(&position(m, true), &init.of("position")),
            embedding_norm: norm(&init),
            stack: Stack::new(&stack, &init.of("stack")),
        };
        EncoderDecoder {
            embedding: target_embedding,
            source_embedding,
            encoder,
            decoder,
            head: (!self.tie_embeddings).then(|| {
                Linear::new(
                    d,
                    shape.vocab_size,
                    self.head_bias,
                    Role::Head,
                    &model.of("head"),
                )
            }),
            dropout: keys.dropouts().embedding,
            head_factor: match self.head_scale {
                true => 1.0 / (d as f64).sqrt(),
                false => 1.0,
            },
        }
    }
}

/// An encoder-decoder.
#[derive(Module, Debug)]
pub struct EncoderDecoder {
    /// Token vectors of the target, and of the source when they are shared.
    pub embedding: Embedding,
    /// Token vectors of the source, when they are not shared.
    pub source_embedding: Option<Embedding>,
    /// What reads.
    pub encoder: Side,
    /// What writes.
    pub decoder: Side,
    /// The untied product onto the vocabulary.
    pub head: Option<Linear>,
    dropout: f64,
    head_factor: f64,
}

/// One of the two stacks with what comes before it.
#[derive(Module, Debug)]
pub struct Side {
    /// How it knows where a token stands.
    pub position: Position,
    /// On the sum of token and position vectors.
    pub embedding_norm: Option<Norm>,
    /// The blocks.
    pub stack: Stack,
}

impl EncoderDecoder {
    /// An empty cache for this model.
    pub fn cache(&self) -> EncoderDecoderCache {
        EncoderDecoderCache {
            layers: vec![BlockCache::default(); self.decoder.stack.blocks.len()],
        }
    }

    /// The longest source or target that the model can place, when it has a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.decoder.position.scheme().max_len()
    }

    /// Reads source ids `[batch, source]` whose rows have these lengths.
    pub fn encode(&self, ids: Tensor<2, Int>, lengths: Option<Vec<usize>>, pass: &Pass) -> Source {
        let embedding = self.source_embedding.as_ref().unwrap_or(&self.embedding);
        let visible = visible(lengths.as_deref());
        let states = pass.within("encoder", || {
            self.run(&self.encoder, embedding, ids, &visible, None, None, pass)
        });
        Source { states, lengths }
    }

    /// Hidden states `[batch, seq, d_model]` of target ids `[batch, seq]`, each seeing those before it and the
    /// source.
    pub fn decode(
        &self,
        ids: Tensor<2, Int>,
        source: &Source,
        cache: Option<&mut EncoderDecoderCache>,
        pass: &Pass,
    ) -> Tensor<3> {
        let memory = Memory {
            states: &source.states,
            visible: &visible(source.lengths.as_deref()),
        };
        let causal = Visibility::causal();
        let embedding = &self.embedding;
        let (decoder, memory) = (&self.decoder, Some(memory));
        pass.within("decoder", || {
            self.run(decoder, embedding, ids, &causal, memory, cache, pass)
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what the two sides differ in, given by position once"
    )]
    fn run(
        &self,
        side: &Side,
        embedding: &Embedding,
        ids: Tensor<2, Int>,
        visible: &Visibility,
        memory: Option<Memory>,
        cache: Option<&mut EncoderDecoderCache>,
        pass: &Pass,
    ) -> Tensor<3> {
        let [_, seq] = ids.dims();
        let device = ids.device();
        let scheme: &dyn PositionScheme = side.position.scheme();
        let offset = cache.as_ref().map_or(0, |cache| cache.len());
        let places = Places { offset, ids: None };
        let span = Span {
            queries: seq,
            keys: offset + seq,
            offset,
        };
        let x = scheme.embed(embedding.forward(ids), &places);
        let x = match &side.embedding_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let context = StackContext {
            scheme,
            places: &places,
            prepared: &scheme.prepare(span, &device),
            visible,
            cache: cache.map(|cache| cache.layers.as_mut_slice()),
            memory,
            pass,
        };
        side.stack.forward(pass.dropout(x, self.dropout), context)
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

/// Every token of a row sees those of this many that the row has.
fn visible(lengths: Option<&[usize]>) -> Visibility {
    lengths.map(Visibility::of_lengths).unwrap_or_default()
}
