//! One layer of a transformer: attention, cross-attention where there is a memory, and a feed-forward layer, each
//! in its residual connection, or all in one (parallel).

use super::residual::{Joining, NormPlacement, Residual};
use super::{Memory, StackShape};
use crate::nn::attention::{Attention, Context, LayerCache, Visibility};
use crate::nn::feed_forward::FeedForward;
use crate::nn::init::Init;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::none::NoPosition;
use crate::nn::position::{PositionScheme, Prepared};
use burn::module::Module;
use burn::tensor::{Int, Tensor};

/// A block of a stack.
#[derive(Module, Debug)]
pub struct Block {
    /// Positions look at each other.
    pub attention: Attention,
    /// Around attention; around both layers when they are parallel.
    pub attention_residual: Residual,
    /// Each position by itself.
    pub feed_forward: FeedForward,
    /// Around the feed-forward layer; absent when parallel.
    pub feed_forward_residual: Option<Residual>,
    /// The feed-forward layer's own norm, when parallel layers do not share one.
    pub parallel_norm: Option<Norm>,
    /// Positions look at a memory, with the residual connection around that (none when parallel).
    pub cross: Option<Cross>,
}

/// Cross-attention of a block.
#[derive(Module, Debug)]
pub struct Cross {
    /// Queries from the block, keys and values from the memory.
    pub attention: Attention,
    /// Around it; absent when parallel.
    pub residual: Option<Residual>,
}

/// Keys and values that a block keeps in decoding.
#[derive(Clone, Debug, Default)]
pub struct BlockCache {
    /// Of the tokens already read.
    pub own: LayerCache,
    /// Of the memory.
    pub memory: LayerCache,
}

impl BlockCache {
    /// The same cache for other rows: row i becomes that of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        self.own.select(rows);
        self.memory.select(rows);
    }
}

/// What a block gets beside its input.
pub struct BlockContext<'a> {
    /// Number of the block in its stack.
    pub layer: usize,
    /// How the model knows where a token stands.
    pub position: &'a dyn PositionScheme,
    /// Rotation and biases of this pass.
    pub prepared: &'a Prepared,
    /// Which of the block's own positions a query sees.
    pub visible: &'a Visibility,
    /// What cross-attention looks at.
    pub memory: Option<Memory<'a>>,
    /// Keys and values, in decoding.
    pub cache: Option<&'a mut BlockCache>,
    /// Dropout's draws.
    pub pass: &'a Pass,
}

impl Block {
    /// Block number `layer` of a stack.
    pub fn new(shape: &StackShape, layer: usize, init: &Init) -> Self {
        let joining = Joining {
            dropout: shape.dropout.residual,
            drop_path: shape.dropout.path_at(layer, shape.n_layers),
            alpha: shape.alpha,
        };
        let residual = |init: &Init| {
            Residual::new(
                shape.norm_placement,
                shape.norm,
                shape.d_model,
                joining,
                init,
            )
        };
        let parallel = shape.norm_placement == NormPlacement::Parallel;
        Self {
            attention: shape.attention.init(
                shape.d_model,
                shape.dropout.attention,
                &init.of("attention"),
            ),
            attention_residual: residual(init),
            feed_forward: shape
                .feed_forward
                .init(shape.d_model, &init.of("feed_forward")),
            feed_forward_residual: (!parallel).then(|| residual(init)),
            parallel_norm: (parallel && !shape.shared_parallel_norm)
                .then(|| shape.norm.init(shape.d_model, init)),
            cross: shape.cross_attention.then(|| Cross {
                attention: shape.attention.init(
                    shape.d_model,
                    shape.dropout.attention,
                    &init.of("cross_attention"),
                ),
                residual: (!parallel).then(|| residual(init)),
            }),
        }
    }

    /// `[batch, seq, d_model]` → the same shape.
    pub fn forward(&self, x: Tensor<3>, context: BlockContext) -> Tensor<3> {
        let pass = context.pass;
        let (own_cache, memory_cache) = match context.cache {
            Some(cache) => (Some(&mut cache.own), Some(&mut cache.memory)),
            None => (None, None),
        };
        let own = Context {
            layer: context.layer,
            position: context.position,
            prepared: context.prepared,
            visible: context.visible,
            cache: own_cache,
            pass,
        };
        let attend = |x: Tensor<3>| self.attention.layer().forward(x, None, own);
        let (layer, memory) = (context.layer, context.memory);
        let look = |x: Tensor<3>| self.look(x, layer, memory, memory_cache, pass);
        let feed_forward = self.feed_forward.layer();
        match &self.feed_forward_residual {
            Some(residual) => {
                let x = self.attention_residual.around(x, pass, attend);
                let x = match self.cross.as_ref().and_then(|c| c.residual.as_ref()) {
                    Some(residual) => residual.around(x, pass, look),
                    None => x,
                };
                residual.around(x, pass, |x| feed_forward.forward(x))
            }
            None => {
                let inner = self.parallel_norm.as_ref().map(|n| n.forward(x.clone()));
                self.attention_residual.around(x, pass, |x| {
                    let inner = inner.unwrap_or_else(|| x.clone());
                    let sum = attend(x.clone()) + feed_forward.forward(inner);
                    match self.cross {
                        Some(_) => sum + look(x),
                        None => sum,
                    }
                })
            }
        }
    }

    /// Cross-attention to the memory.
    fn look(
        &self,
        x: Tensor<3>,
        layer: usize,
        memory: Option<Memory>,
        cache: Option<&mut LayerCache>,
        pass: &Pass,
    ) -> Tensor<3> {
        let (Some(cross), Some(memory)) = (&self.cross, memory) else {
            unreachable!("a block with cross-attention is given a memory")
        };
        let context = Context {
            layer,
            position: &NoPosition {},
            prepared: &Prepared::default(),
            visible: memory.visible,
            cache,
            pass,
        };
        let states = Some(memory.states.clone());
        cross.attention.layer().forward(x, states, context)
    }
}
