//! Attention pooling of an image: a learned vector, the probe, attends to the patches once, and a feed-forward layer reads the
//! result (Lee et al. 2019, Set Transformer, section 3.2; Zhai et al. 2022, Scaling Vision Transformers; SigLIP's vision
//! networks).
//!
//! ```text
//! y = attention(probe, hidden)      pooled = y + feed_forward(norm(y))
//! ```
//!
//! `hidden` are the states after the last norm. The attention has the heads and biases of the first block that has attention,
//! without its other settings (positions, windows, norms); the feed-forward layer is like the first block's. There is no dropout.

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

/// Name of the pooling as a part of a network, in keys of random draws and in readings.
pub(super) const PART: &str = "attention_pooling";

/// The configs of the layers of attention pooling.
struct PoolingLayers {
    attention: AttentionConfig,
    feed_forward: FeedForwardConfig,
}

impl PoolingLayers {
    /// Returns the layers for a network. If the first block has no feed-forward layer, or one that reads the position before,
    /// couples rows, or has experts that can be unused, the default feed-forward layer is used.
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
            !layer.reads_earlier_positions()
                && !layer.couples_micro_batches()
                && layer.inactive_parameters(stack.d_model) == 0
        };
        let feed_forward = stack.block(&depth, 0).feed_forward.filter(serves);
        Self {
            attention: attention.into(),
            feed_forward: feed_forward.cloned().unwrap_or_default(),
        }
    }
}

/// Multiplications of a forward pass over `positions` hidden states.
pub(super) fn products(config: &VisionConfig, positions: usize) -> u128 {
    let (layers, d) = (PoolingLayers::of(config), config.stack.d_output());
    layers.attention.products_across(d, 1, positions) + layers.feed_forward.products(d)
}

/// Elements kept for the backward pass over `positions` hidden states.
pub(super) fn activations(config: &VisionConfig, positions: usize) -> u128 {
    let (layers, d) = (PoolingLayers::of(config), config.stack.d_output());
    let attention = layers.attention.kept(d);
    let of_probe = 4 * d as u128 + attention + layers.feed_forward.activations(d);
    positions as u128 * attention + of_probe
}

/// Places of the parameters of [`AttentionPooling`].
pub const ROLES: Roles = Roles::new("AttentionPooling", &[("probe", TABLE)]);

/// Attention of one learned vector to all hidden states, followed by a feed-forward layer.
#[derive(Module, Debug)]
pub struct AttentionPooling {
    /// The learned vector, `[1, d]`.
    pub probe: Param<Tensor<2>>,
    /// Attention with a query from the probe, keys and values from the hidden states.
    pub attention: Attention,
    /// The feed-forward layer on the attention's output.
    pub feed_forward: FeedForward,
    /// The residual connection around the feed-forward layer.
    pub feed_forward_residual: Residual,
}

impl AttentionPooling {
    /// Builds the pooling of a network.
    pub(super) fn new(config: &VisionConfig, init: &Init) -> Self {
        let (layers, d) = (PoolingLayers::of(config), config.stack.d_output());
        let block = BlockShape {
            d_model: d,
            layer: 0,
            blocks: 1,
            makes_first_values: false,
        };
        let of = |part: &str| init.part(part).with_residual_scaling(1, 1.0);
        let shape = AttentionShape {
            score_factor: config.stack.score_factor(Some(&layers.attention)),
            ..AttentionShape::standalone(d, 0)
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

    /// Pools hidden states: `[batch, positions, d]` → `[batch, d]`.
    pub fn forward(&self, hidden: &Tensor<3>, pass: &Pass) -> Tensor<2> {
        let [batch, positions, d] = hidden.dims();
        let pooled = pass.in_block(PART, || {
            let probe = self.probe.val().cast(hidden.dtype());
            let probe = probe.unsqueeze_dim::<3>(0).expand([batch, 1, d]);
            let mut cx = LayerContext::standalone(positions, pass);
            cx.span.queries = 1;
            cx.memory = Some(hidden);
            let seen = self.attention.layer().forward(probe, &mut cx);
            self.feed_forward_residual
                .apply(seen, "feed_forward", 0.0, pass, |x| {
                    let mut cx = LayerContext::standalone(1, pass);
                    self.feed_forward.layer().forward(x, &mut cx)
                })
        });
        pooled.reshape([batch, d])
    }
}
