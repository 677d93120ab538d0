//! One vector of all patches by attention: a learned vector, the probe, looks at them once, and a feed-forward layer reads what it
//! saw (Lee et al. 2019, Set Transformer, section 3.2; Zhai et al. 2022, Scaling Vision Transformers; SigLIP's vision networks).
//!
//! ```text
//! y = attention(probe, hidden)      pooled = y + feed_forward(norm(y))
//! ```
//!
//! hidden are the states after the last norm. The attention has as many heads as the first block that has some, with their biases
//! and without what else they may have (positions, windows, norms); the feed-forward layer is the first block's. Nothing is dropped.

use super::VisionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::attention::{Attention, AttentionConfig, AttentionShape};
use crate::nn::feed_forward::{FeedForward, FeedForwardConfig};
use crate::nn::init::Init;
use crate::nn::layer::{BlockShape, LayerContext};
use crate::nn::pass::Pass;
use crate::nn::role::{Roles, TABLE};
use crate::stack::NormPlacement;
use crate::stack::residual::{Residual, ResidualConfig};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// The name of its part of a network, for draws and readings.
pub(super) const PART: &str = "attention_pooling";

/// The layers of an attention pooling, as configs.
struct Layers {
    attention: AttentionConfig,
    feed_forward: FeedForwardConfig,
}

impl Layers {
    /// Those of a network. Where the first block has no feed-forward layer, or one that looks back or has experts that rest, the
    /// usual one stands in its place.
    fn of(config: &VisionConfig) -> Self {
        let (stack, depth) = (&config.stack, config.depth());
        let heads = stack.attention_of(&depth).heads();
        let attention = MultiHeadConfig {
            n_heads: heads.n_heads,
            n_kv_heads: heads.n_kv_heads,
            d_head: heads.d_head,
            bias: heads.bias,
            key_bias: heads.key_bias,
            out_bias: heads.out_bias,
            ..MultiHeadConfig::default()
        };
        let serves = |layer: &&FeedForwardConfig| {
            !layer.looks_back() && !layer.couples_rows() && layer.unused(stack.d_model) == 0
        };
        let feed_forward = stack.block(&depth, 0).feed_forward.filter(serves);
        Self {
            attention: attention.into(),
            feed_forward: feed_forward.cloned().unwrap_or_default(),
        }
    }
}

/// Multiplications of a forward pass over `positions` states.
pub(super) fn products(config: &VisionConfig, positions: usize) -> u128 {
    let (layers, d) = (Layers::of(config), config.stack.d_output());
    layers.attention.products_across(d, 1, positions) + layers.feed_forward.products(d)
}

/// Numbers that are kept for the backward pass, likewise.
pub(super) fn kept(config: &VisionConfig, positions: usize) -> u128 {
    let (layers, d) = (Layers::of(config), config.stack.d_output());
    let attention = layers.attention.kept(d);
    let of_probe = 4 * d as u128 + attention + layers.feed_forward.kept(d);
    positions as u128 * attention + of_probe
}

/// The roles of the parameters of [`AttentionPooling`].
pub const ROLES: Roles = Roles::new("AttentionPooling", &[("probe", TABLE)]);

/// Attention of one learned vector to all states, and a feed-forward layer behind it.
#[derive(Module, Debug)]
pub struct AttentionPooling {
    /// `[1, d]`.
    pub probe: Param<Tensor<2>>,
    /// Queries of the probe, keys and values of the states.
    pub attention: Attention,
    /// Of what the probe saw.
    pub feed_forward: FeedForward,
    /// Around it.
    pub feed_forward_residual: Residual,
}

impl AttentionPooling {
    /// The pooling of a network.
    pub(super) fn new(config: &VisionConfig, init: &Init) -> Self {
        let (layers, d) = (Layers::of(config), config.stack.d_output());
        let block = BlockShape {
            d_model: d,
            layer: 0,
            blocks: 1,
            makes_first_values: false,
        };
        let of = |part: &str| init.of(part).scaled(1, 1.0);
        let shape = AttentionShape {
            score_factor: config.stack.score_factor(Some(&layers.attention)),
            ..AttentionShape::alone(d, 0)
        };
        let joined = ResidualConfig::plain(0.0);
        Self {
            probe: of("probe").table(1, d),
            attention: layers.attention.init(&shape, &of("attention")),
            feed_forward: layers.feed_forward.init(&block, 0.0, &of("feed_forward")),
            feed_forward_residual: Residual::new(
                NormPlacement::default(),
                &config.stack.norm,
                d,
                joined,
                init,
            ),
        }
    }

    /// Hidden states `[batch, positions, d]` → `[batch, d]`.
    pub fn forward(&self, hidden: &Tensor<3>, pass: &Pass) -> Tensor<2> {
        let [batch, positions, d] = hidden.dims();
        let pooled = pass.block(PART, || {
            let probe = self.probe.val().cast(hidden.dtype());
            let probe = probe.unsqueeze_dim::<3>(0).expand([batch, 1, d]);
            let mut cx = LayerContext::alone(positions, pass);
            cx.span.queries = 1;
            cx.memory = Some(hidden);
            let seen = self.attention.layer().forward(probe, &mut cx);
            self.feed_forward_residual
                .around(seen, "feed_forward", 0.0, pass, |x| {
                    let mut cx = LayerContext::alone(1, pass);
                    self.feed_forward.layer().forward(x, &mut cx)
                })
        });
        pooled.reshape([batch, d])
    }
}
