//! How layers are wired: blocks in a row, norm placement, the final norm.

pub mod block;
pub mod residual;

use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::Init;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::pass::Pass;
use crate::nn::position::{Places, PositionScheme, Prepared};
use block::{Block, BlockCache, BlockContext};
use burn::module::Module;
use burn::tensor::Tensor;
pub use residual::NormPlacement;

/// The shape of a stack, gathered from a model's config.
#[derive(Clone, Copy, Debug)]
pub struct StackShape<'a> {
    /// Number of blocks.
    pub n_layers: usize,
    /// Width of the stream.
    pub d_model: usize,
    /// Every norm.
    pub norm: &'a NormConfig,
    /// Where norms stand.
    pub norm_placement: NormPlacement,
    /// DeepNorm's α; 1 elsewhere.
    pub alpha: f64,
    /// Whether parallel layers share one norm.
    pub shared_parallel_norm: bool,
    /// Whether a norm follows the last block.
    pub final_norm: bool,
    /// Every attention.
    pub attention: &'a AttentionConfig,
    /// Every feed-forward layer.
    pub feed_forward: &'a FeedForwardConfig,
    /// Dropout's probabilities.
    pub dropout: Dropout,
    /// Whether each block also attends to a memory.
    pub cross_attention: bool,
}

/// Probabilities of the dropouts of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dropout {
    /// On the embeddings.
    pub embedding: f64,
    /// On attention weights.
    pub attention: f64,
    /// On each layer's result.
    pub residual: f64,
    /// On whole layers, rising linearly to this at the last one.
    pub path: f64,
}

impl Dropout {
    /// Drop path's probability at a layer (Huang et al. 2016, linear decay rule).
    pub fn path_at(&self, layer: usize, n_layers: usize) -> f64 {
        self.path * layer as f64 / (n_layers.max(2) - 1) as f64
    }
}

/// Blocks in a row.
#[derive(Module, Debug)]
pub struct Stack {
    /// In the order of the computation.
    pub blocks: Vec<Block>,
    /// After the last block.
    pub final_norm: Option<Norm>,
}

/// What a stack gets beside its input.
pub struct StackContext<'a> {
    /// The position scheme, for what it adds before each layer.
    pub scheme: &'a dyn PositionScheme,
    /// Where the tokens stand.
    pub places: &'a Places,
    /// Rotation and biases of this pass.
    pub prepared: &'a Prepared,
    /// Which of the stack's own positions a query sees.
    pub visible: &'a Visibility,
    /// One cache for each layer, in decoding.
    pub cache: Option<&'a mut [BlockCache]>,
    /// What cross-attention looks at, in a decoder of an encoder-decoder.
    pub memory: Option<Memory<'a>>,
    /// Dropout's draws.
    pub pass: &'a Pass,
}

/// The encoder's final output, the same for every layer of the decoder.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// `[batch, source, d_model]`.
    pub states: &'a Tensor<3>,
    /// Which of them a query sees.
    pub visible: &'a Visibility,
}

impl Stack {
    /// A stack of this shape.
    pub fn new(shape: &StackShape, init: &Init) -> Self {
        Self {
            blocks: (0..shape.n_layers)
                .map(|layer| Block::new(shape, layer, &init.of(&layer.to_string())))
                .collect(),
            final_norm: shape
                .final_norm
                .then(|| shape.norm.init(shape.d_model, init)),
        }
    }

    /// `[batch, seq, d_model]` → the same shape.
    pub fn forward(&self, mut x: Tensor<3>, context: StackContext) -> Tensor<3> {
        let mut caches = context.cache.map(|caches| caches.iter_mut());
        for (layer, block) in self.blocks.iter().enumerate() {
            x = context.scheme.embed_layer(x, layer, context.places);
            let pass = context.pass;
            let context = BlockContext {
                layer,
                position: context.scheme,
                prepared: context.prepared,
                visible: context.visible,
                memory: context.memory,
                cache: caches.as_mut().and_then(Iterator::next),
                pass,
            };
            x = pass.block(format_args!("blocks.{layer}"), || block.forward(x, context));
        }
        match &self.final_norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }
}
