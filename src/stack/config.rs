//! The keys that all transformers share.

use super::layers::{BlockConfig, Depth};
use super::view::GroupPosition;
use super::{
    Dropout, Join, MupConfig, NormPlacement, ResidualScaleConfig, ReversibleConfig, ShareConfig,
    StackShape,
};
use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::{Init, InitConfig, InitSettings};
use crate::nn::norm::NormConfig;
use crate::nn::position::{PositionConfig, PositionShape};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;

/// The settings of a stack of transformer blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct StackConfig {
    /// Width of the residual stream.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_model: usize,
    /// Settings of every norm layer.
    pub norm: NormConfig,
    /// Norm placement in a block. Source: Xiong et al. 2020, section 3 (pre, post); Liu et al. 2022, section 3.2 (res_post); Wang
    /// et al. 2022, section 4 (deepnorm).
    pub norm_placement: NormPlacement,
    /// Learned scale on each layer's output, or on the stream, before the residual addition.
    #[serde(skip_serializing_if = "ResidualScaleConfig::is_none")]
    pub residual_scale: ResidualScaleConfig,
    /// Whether the first layer reads the stream through a norm, as every other layer does; false if a norm of the embeddings
    /// comes right before it. Default: it does. Source: Warner et al. 2024, ModernBERT, section 2.1.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_norm: Option<bool>,
    /// Whether a norm follows the last block; set by the norm placement when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<bool>,
    /// Whether parallel layers share one norm (Falcon-7B, GPT-J) or have one each (GPT-NeoX).
    /// Source: Black et al. 2022, section 2.1.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_parallel_norm: Option<bool>,
    /// Sharing of parameters among layers. Source: Lan et al. 2020, section 3.1.
    #[serde(skip_serializing_if = "ShareConfig::is_none")]
    pub share_layers: ShareConfig,
    /// Two residual streams in place of one; training recomputes all earlier values of the streams from the last ones.
    /// Source: Gomez et al. 2017, section 3; Kitaev et al. 2020, section 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reversible: Option<ReversibleConfig>,
    /// Position scheme: how token positions are encoded.
    pub position: PositionConfig,
    /// The attention of every block, if there are no layer groups.
    pub attention: AttentionConfig,
    /// The feed-forward layer of every block, if there are no layer groups.
    pub feed_forward: FeedForwardConfig,
    /// The probability of every dropout that has no key of its own. Source: Srivastava et al. 2014; Vaswani et al. 2017, section
    /// 5.4.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Dropout on the embeddings; `dropout` when absent. Source: Vaswani et al. 2017, section 5.4.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_embedding: Option<f64>,
    /// Dropout on attention weights; `dropout` when absent.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_attention: Option<f64>,
    /// Dropout on each layer's output; `dropout` when absent. Source: Vaswani et al. 2017, section 5.4.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_residual: Option<f64>,
    /// Dropout inside feed-forward layers, after the activation (T5, BART, ViT); 0 when absent.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_feed_forward: Option<f64>,
    /// Dropout on the stack's output, after its last norm (T5); 0 when absent.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_output: Option<f64>,
    /// Probability that a row skips a layer, rising linearly to this value at the last layer.
    /// Source: Huang et al. 2016, section 3.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub drop_path: f64,
    /// How the initial weights are drawn; set by the norm placement when absent. Class tokens
    /// start at 0, convolutions as in He et al. 2015.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
    /// The narrower model whose learning rates and initial weights this one takes over (μP). Source: Yang et al. 2022, Tensor Programs V.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mup: Option<MupConfig>,
}

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            d_model: 128,
            norm: NormConfig::default(),
            norm_placement: NormPlacement::Pre,
            residual_scale: ResidualScaleConfig::default(),
            first_norm: None,
            final_norm: None,
            shared_parallel_norm: None,
            share_layers: ShareConfig::default(),
            reversible: None,
            position: PositionConfig::default(),
            attention: AttentionConfig::default(),
            feed_forward: FeedForwardConfig::default(),
            dropout: 0.0,
            dropout_embedding: None,
            dropout_attention: None,
            dropout_residual: None,
            dropout_feed_forward: None,
            dropout_output: None,
            drop_path: 0.0,
            init: None,
            mup: None,
        }
    }
}

/// Reading a config fills in how initial weights are drawn, so that the resolved experiment shows it.
impl<'de> Deserialize<'de> for StackConfig {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut config = Self::deserialize(d)?;
        config.init = Some(config.init_settings().scheme);
        Ok(config)
    }
}

impl Serialize for StackConfig {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, s)
    }
}

impl StackConfig {
    /// Returns the layers of block number `block` of a stack.
    pub fn block<'a>(&'a self, depth: &Depth<'a>, block: usize) -> BlockConfig<'a> {
        let mut left = block % depth.grouped_blocks().max(1);
        for group in depth.groups {
            if left < group.repeat {
                let own = BlockConfig::from_group(group);
                return BlockConfig {
                    cross: own.cross.or(depth.listed_cross_attention(block)),
                    ..own
                };
            }
            left -= group.repeat;
        }
        BlockConfig {
            attention: Some(&self.attention),
            mixer: None,
            position: None,
            feed_forward: Some(&self.feed_forward),
            cross: match depth.cross_in {
                Some(_) => depth.listed_cross_attention(block),
                None => depth.cross,
            },
        }
    }

    /// The layers of each distinct kind of block: one for each group, or the only one of a stack without groups.
    pub fn distinct_blocks<'a>(
        &'a self,
        depth: Depth<'a>,
    ) -> impl Iterator<Item = BlockConfig<'a>> {
        let grouped = depth.groups.iter().map(BlockConfig::from_group);
        let alone = depth.groups.is_empty().then(|| self.block(&depth, 0));
        grouped.chain(alone)
    }

    /// Returns the layers of every block of a stack.
    pub fn blocks<'a>(&'a self, depth: &Depth<'a>) -> impl Iterator<Item = BlockConfig<'a>> {
        let depth = *depth;
        (0..depth.blocks()).map(move |block| self.block(&depth, block))
    }

    /// Multiplications of a forward pass of a stack over `tokens` positions, with cross-attention to `memory` positions if it
    /// has some.
    pub fn products(&self, depth: &Depth, tokens: usize, memory: usize) -> u128 {
        self.products_of_blocks(0..depth.blocks(), depth, tokens, memory)
    }

    /// Multiplications of some of its blocks, as [`StackConfig::products`] counts them.
    pub fn products_of_blocks(
        &self,
        blocks: Range<usize>,
        depth: &Depth,
        tokens: usize,
        memory: usize,
    ) -> u128 {
        let d = self.d_model;
        let shape = self.position_shape(depth, tokens);
        let products = blocks.map(|block| {
            let block = self.block(depth, block);
            let own = |a: &AttentionConfig| {
                let pairs = a.query_key_counts(tokens, depth.causal);
                a.products(d, tokens, depth.causal) + self.position.facts().products(&shape, pairs)
            };
            let across = |a: &AttentionConfig| a.products_across(d, tokens, memory);
            let mixer = block.mixer.map_or(0, |m| m.products(d, tokens));
            let feed_forward = block.feed_forward.map_or(0, |f| f.products(d));
            block.attention.map_or(0, own)
                + block.cross.map_or(0, across)
                + tokens as u128 * (mixer + feed_forward)
        });
        products.sum()
    }

    /// Returns the dropouts: each key's own value, or `dropout`.
    pub fn dropouts(&self) -> Dropout {
        Dropout {
            embedding: self.dropout_embedding.unwrap_or(self.dropout),
            attention: self.dropout_attention.unwrap_or(self.dropout),
            residual: self.dropout_residual.unwrap_or(self.dropout),
            feed_forward: self.dropout_feed_forward.unwrap_or(0.0),
            output: self.dropout_output.unwrap_or(0.0),
            path: self.drop_path,
        }
    }

    /// How the initial weights are drawn. For DeepNorm as in its paper, with Xavier's bound, of which β is the gain (Wang
    /// et al. 2022, figure 2); otherwise as in GPT-2.
    pub fn init_settings(&self) -> InitSettings {
        let scheme = self.init.clone().unwrap_or(match self.norm_placement {
            NormPlacement::Deepnorm => InitConfig::xavier(),
            NormPlacement::Pre
            | NormPlacement::Post
            | NormPlacement::Sandwich
            | NormPlacement::ResPost
            | NormPlacement::Parallel => InitConfig::default(),
        });
        let width = self.width_ratio();
        InitSettings {
            scheme,
            width_ratio: width,
        }
    }

    /// Ratio of its width to that of the model whose learning rates and initial weights it takes over (μP); 1 if there is none.
    pub fn width_ratio(&self) -> f64 {
        self.mup.map_or(1.0, |mup| mup.width_ratio(self.d_model))
    }

    /// The factor on attention scores besides 1/√d_head.
    pub fn score_factor(&self, attention: Option<&AttentionConfig>) -> f64 {
        let of = self.mup.zip(attention);
        of.map_or(1.0, |(mup, attention)| {
            mup.score_factor(self.d_model, attention.d_head(self.d_model))
        })
    }

    /// The factor on the hidden states that an LM head reads; `tied` if its matrix is the embedding table.
    pub fn head_factor(&self, tied: bool) -> f64 {
        self.mup
            .map_or(1.0, |mup| mup.head_factor(self.d_model, tied))
    }

    /// Width of the stack's output.
    pub fn d_output(&self) -> usize {
        match self.reversible.map(|reversible| reversible.join) {
            Some(Join::Concatenation) => 2 * self.d_model,
            Some(Join::Mean | Join::Sum) | None => self.d_model,
        }
    }

    /// Whether layers read the stream through norms, except for the first one.
    pub fn lacks_first_norm(&self) -> bool {
        self.first_norm == Some(false)
    }

    /// Whether a norm follows the last block.
    pub fn has_final_norm(&self) -> bool {
        self.final_norm
            .unwrap_or(self.norm_placement.wants_final_norm())
    }

    /// The attention that the model's position scheme serves: that of the first block that has one and no position scheme of its
    /// own.
    pub fn attention_of<'a>(&'a self, depth: &Depth<'a>) -> &'a AttentionConfig {
        let attending = || {
            depth
                .groups
                .iter()
                .filter(|group| group.attention.is_some())
        };
        let served = attending().find(|group| group.position.is_none());
        let group = served.or(attending().next());
        group
            .and_then(|group| group.attention.as_ref())
            .unwrap_or(&self.attention)
    }

    /// Builds the position scheme of block number `layer` of a stack of this shape, if its group has its own.
    pub(super) fn own_position(
        &self,
        shape: &StackShape,
        layer: usize,
        init: &Init,
    ) -> Option<GroupPosition> {
        let depth = &shape.depth;
        let block = self.block(depth, layer);
        let (scheme, attention) = block.position.zip(block.attention)?;
        let heads = |b: BlockConfig| b.attention.map(|a| a.d_head(self.d_model));
        let alike = |b: BlockConfig| b.position == Some(scheme) && heads(b) == heads(block);
        let shape = PositionShape {
            n_heads: attention.n_heads(),
            d_head: attention.d_head(self.d_model),
            ..self.position_shape(depth, shape.context)
        };
        Some(GroupPosition {
            first: self.blocks(depth).position(alike).unwrap_or(layer),
            scheme: scheme.init(&shape, init),
        })
    }

    /// The shape from which a position scheme is built, for texts of `context` tokens.
    pub fn position_shape(&self, depth: &Depth, context: usize) -> PositionShape {
        let attention = self.attention_of(depth);
        let owners = self.share_layers.owners(depth.blocks());
        PositionShape {
            d_model: self.d_model,
            n_heads: attention.n_heads(),
            d_head: attention.d_head(self.d_model),
            n_layers: depth.blocks(),
            context,
            causal: depth.causal,
            grid: None,
            layers_without_attention: self
                .blocks(depth)
                .enumerate()
                .filter(|(_, block)| block.attention.is_none() || block.position.is_some())
                .map(|(layer, _)| layer)
                .collect(),
            layers_sharing_parameters: (0..depth.blocks())
                .filter(|layer| owners.mixer_owner(*layer) != *layer)
                .collect(),
            dropout: self.dropouts().embedding,
        }
    }
}
