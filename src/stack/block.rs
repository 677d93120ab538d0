//! One layer of a transformer: attention and a feed-forward layer, each in its residual connection, or both
//! in one (parallel).

use super::StackShape;
use super::residual::{Joining, NormPlacement, Residual};
use crate::nn::attention::{Attention, Context};
use crate::nn::feed_forward::FeedForward;
use crate::nn::init::Init;
use crate::nn::norm::Norm;
use burn::module::Module;
use burn::tensor::Tensor;

/// A block of a stack without cross-attention.
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
}

impl Block {
    /// Block number `layer` of a stack.
    pub fn new(shape: &StackShape, layer: usize, init: &Init) -> Self {
        let (alpha, _) = shape.norm_placement.alpha_beta(shape.n_layers);
        let joining = Joining {
            dropout: shape.dropout.residual,
            drop_path: shape.dropout.path_at(layer, shape.n_layers),
            alpha,
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
            attention: shape
                .attention
                .init(shape.d_model, shape.dropout.attention, init),
            attention_residual: residual(init),
            feed_forward: shape.feed_forward.init(shape.d_model, init),
            feed_forward_residual: (!parallel).then(|| residual(init)),
            parallel_norm: (parallel && !shape.shared_parallel_norm)
                .then(|| shape.norm.init(shape.d_model, init)),
        }
    }

    /// `[batch, seq, d_model]` → the same shape.
    pub fn forward(&self, x: Tensor<3>, context: Context) -> Tensor<3> {
        let pass = context.pass;
        let (attention, feed_forward) = (self.attention.layer(), self.feed_forward.layer());
        match &self.feed_forward_residual {
            Some(residual) => {
                let x = self
                    .attention_residual
                    .around(x, pass, |x| attention.forward(x, None, context));
                residual.around(x, pass, |x| feed_forward.forward(x))
            }
            None => {
                let own = self.parallel_norm.as_ref().map(|n| n.forward(x.clone()));
                self.attention_residual.around(x, pass, |x| {
                    let inner = own.unwrap_or_else(|| x.clone());
                    attention.forward(x, None, context) + feed_forward.forward(inner)
                })
            }
        }
    }
}
