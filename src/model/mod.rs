//! Whole networks: ids or pixels in, hidden states and logits out; no loss.

pub mod decoder;
pub mod encoder;
pub mod encoder_decoder;
pub mod heads;
pub mod image;
pub mod preset;
pub mod resnet;
pub mod source;
pub mod vision;

use crate::data::Shape;
use crate::nn::Kind;
use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::InitConfig;
use crate::nn::norm::NormConfig;
use crate::nn::position::{PositionConfig, PositionShape};
use crate::stack::{Dropout, NormPlacement, StackShape};
use burn::module::{Module, ModuleVisitor};
use burn::tensor::Device;
pub use decoder::{Decoder, DecoderConfig};
pub use encoder::{Encoder, EncoderConfig};
pub use encoder_decoder::{EncoderDecoder, EncoderDecoderConfig};
pub use image::ImageModel;
use resnet::Cost;
pub use resnet::{Resnet, ResnetConfig};
use serde::{Deserialize, Serialize};
pub use vision::{Vision, VisionConfig};

/// The kinds of `[model]`.
pub const KINDS: &[Kind] = &[
    decoder::KIND,
    encoder::KIND,
    encoder_decoder::KIND,
    vision::KIND,
    resnet::KIND,
];

/// Which network an experiment trains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// A decoder-only language model.
    Decoder(DecoderConfig),
    /// A bidirectional encoder.
    Encoder(EncoderConfig),
    /// An encoder and a decoder that looks at it.
    EncoderDecoder(EncoderDecoderConfig),
    /// A vision transformer.
    Vision(VisionConfig),
    /// A residual convolutional network.
    Resnet(ResnetConfig),
}

impl ModelConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Decoder(_) => decoder::KIND.kind,
            Self::Encoder(_) => encoder::KIND.kind,
            Self::EncoderDecoder(_) => encoder_decoder::KIND.kind,
            Self::Vision(_) => vision::KIND.kind,
            Self::Resnet(_) => resnet::KIND.kind,
        }
    }

    /// Width of the residual stream, or of the last feature map.
    pub fn d_model(&self) -> usize {
        match self {
            Self::Decoder(c) => c.d_model,
            Self::Encoder(c) => c.d_model,
            Self::EncoderDecoder(c) => c.d_model,
            Self::Vision(c) => c.d_model,
            Self::Resnet(c) => c.features(),
        }
    }

    /// Shows its parameters to a visitor, without what a task adds; none of a network for images when the shape
    /// has no image.
    pub fn visit<V: ModuleVisitor>(&self, inputs: &ModelInputs, visitor: &mut V) {
        match self {
            Self::Decoder(c) => c.init(inputs).visit(visitor),
            Self::Encoder(c) => c.init(inputs).visit(visitor),
            Self::EncoderDecoder(c) => c.init(inputs).visit(visitor),
            Self::Vision(_) | Self::Resnet(_) => {
                if let Some(network) = ImageModel::new(self, inputs) {
                    network.visit(visitor);
                }
            }
        }
    }

    /// Whether a table of embeddings is also the product onto the vocabulary.
    pub fn ties_head(&self) -> bool {
        match self {
            Self::Decoder(c) => c.tie_embeddings,
            Self::Encoder(c) => c.tie_embeddings,
            Self::EncoderDecoder(c) => c.tie_embeddings,
            Self::Vision(_) | Self::Resnet(_) => false,
        }
    }

    /// Positions that an input of this shape has, of a pair each side; 1 of a network that has none.
    pub fn tokens(&self, shape: &Shape) -> usize {
        let [_, height, width] = shape.image.unwrap_or_default();
        match self {
            Self::Decoder(_) | Self::Encoder(_) | Self::EncoderDecoder(_) => shape.context,
            Self::Vision(c) => c.grid(height, width).positions(),
            Self::Resnet(_) => 1,
        }
    }

    /// What speed and cost are counted in.
    pub fn item(&self) -> ItemOf {
        match self {
            Self::Decoder(_) | Self::Encoder(_) => ItemOf::Token,
            Self::EncoderDecoder(_) => ItemOf::Pair,
            Self::Vision(_) | Self::Resnet(_) => ItemOf::Image,
        }
    }

    /// What it has in common with other transformers; `None` when it is none.
    pub fn keys(&self) -> Option<Keys<'_>> {
        match self {
            Self::Decoder(c) => Some(c.keys()),
            Self::Encoder(c) => Some(c.keys()),
            Self::EncoderDecoder(c) => Some(c.keys()),
            Self::Vision(c) => Some(c.keys()),
            Self::Resnet(_) => None,
        }
    }

    /// What the convolutions of an input of this shape cost.
    pub fn convolutions(&self, shape: &Shape) -> Cost {
        let network = match self {
            Self::Decoder(_) | Self::Encoder(_) | Self::EncoderDecoder(_) => None,
            Self::Vision(c) => c.stem.network(),
            Self::Resnet(c) => Some(c),
        };
        match (network, shape.image) {
            (Some(network), Some(image)) => network.cost(image),
            _ => Cost::default(),
        }
    }
}

/// What speed and cost are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOf {
    /// Tokens of a text.
    Token,
    /// Tokens of either side of a pair.
    Pair,
    /// Images.
    Image,
}

/// The keys that all transformers have, borrowed from a model's config.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Keys of the numbers of blocks, and their values.
    pub n_layers: [Option<(&'static str, usize)>; 2],
    /// Width of the residual stream.
    pub d_model: usize,
    /// Every norm.
    pub norm: &'a NormConfig,
    /// Where norms stand.
    pub norm_placement: NormPlacement,
    /// Whether a norm follows the last block; as the placement wants it when absent.
    pub final_norm: Option<bool>,
    /// Whether parallel layers share one norm.
    pub shared_parallel_norm: Option<bool>,
    /// Whether the embeddings are normalised.
    pub embedding_norm: bool,
    /// How the model knows where a token stands.
    pub position: &'a PositionConfig,
    /// Every attention.
    pub attention: &'a AttentionConfig,
    /// Every feed-forward layer.
    pub feed_forward: &'a FeedForwardConfig,
    /// Every dropout that has no key of its own.
    pub dropout: f64,
    /// Dropouts with keys of their own: on embeddings, attention weights, results of layers.
    pub own_dropouts: [Option<f64>; 3],
    /// Probability that a row skips a layer.
    pub drop_path: f64,
    /// How the initial weights are drawn.
    pub init: &'a InitConfig,
}

/// [`Keys`] of a config that has them all under their names.
macro_rules! keys {
    ($config:expr, $n_layers:expr) => {
        Keys {
            n_layers: $n_layers,
            d_model: $config.d_model,
            norm: &$config.norm,
            norm_placement: $config.norm_placement,
            final_norm: $config.final_norm,
            shared_parallel_norm: $config.shared_parallel_norm,
            embedding_norm: $config.embedding_norm,
            position: &$config.position,
            attention: &$config.attention,
            feed_forward: &$config.feed_forward,
            dropout: $config.dropout,
            own_dropouts: [
                $config.dropout_embedding,
                $config.dropout_attention,
                $config.dropout_residual,
            ],
            drop_path: $config.drop_path,
            init: &$config.init,
        }
    };
}
use keys;

impl Keys<'_> {
    /// The dropouts, each key's own value or the common one.
    pub fn dropouts(&self) -> Dropout {
        let [embedding, attention, residual] = self.own_dropouts;
        Dropout {
            embedding: embedding.unwrap_or(self.dropout),
            attention: attention.unwrap_or(self.dropout),
            residual: residual.unwrap_or(self.dropout),
            path: self.drop_path,
        }
    }

    /// Whether a norm follows the last block.
    pub fn has_final_norm(&self) -> bool {
        self.final_norm
            .unwrap_or(self.norm_placement.wants_final_norm())
    }

    /// A stack of `n_layers` blocks, with DeepNorm's α.
    pub fn stack(&self, n_layers: usize, alpha: f64) -> StackShape<'_> {
        StackShape {
            n_layers,
            d_model: self.d_model,
            norm: self.norm,
            norm_placement: self.norm_placement,
            alpha,
            shared_parallel_norm: self.shared_parallel_norm.unwrap_or(true),
            final_norm: self.has_final_norm(),
            attention: self.attention,
            feed_forward: self.feed_forward,
            dropout: self.dropouts(),
            cross_attention: false,
        }
    }

    /// What a position scheme is built from.
    pub fn position_shape(&self, n_layers: usize, context: usize, causal: bool) -> PositionShape {
        PositionShape {
            d_model: self.d_model,
            n_heads: self.attention.n_heads(),
            d_head: self.attention.d_head(self.d_model),
            n_layers,
            context,
            causal,
            grid: None,
        }
    }
}

/// What a model learns about its surroundings when it is built.
#[derive(Clone, Copy, Debug)]
pub struct ModelInputs<'a> {
    /// Vocabulary, longest input, image size.
    pub shape: &'a Shape,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Where parameters live.
    pub device: &'a Device,
}
