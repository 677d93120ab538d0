//! `[model.retrieval.encoder]`: the neighbour encoder; absent keys follow the decoder.

use super::config::{block_number_faults, memory_attention_faults};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::nn::attention::multi_head::sinks::Sinks;
use crate::nn::attention::{AttentionConfig, ReadingDirection};
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::{ActsOn, HeadEffect, KnownSizes, PositionConfig};
use crate::stack::{Depth, ShareConfig, StackConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of encoder blocks.
const MAX_LAYERS: usize = 1_000;

/// The settings of the neighbour encoder. Norms and other parts without a key here are the decoder's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NeighbourEncoderConfig {
    /// Number of blocks. Source: Borgeaud et al. 2022, table 11.
    #[schemars(range(min = 1, max = MAX_LAYERS))]
    pub n_layers: usize,
    /// Width of its residual stream; the decoder's when absent.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_model: Option<usize>,
    /// The blocks that attend to the decoder's stream, counted from 1; all of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross: Option<Vec<usize>>,
    /// Its self-attention and its cross-attention to the decoder's stream; the decoder's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionConfig>,
    /// Its feed-forward layers; the decoder's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<FeedForwardConfig>,
    /// Its position scheme within a neighbour; the decoder's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<PositionConfig>,
    /// The probability of each of its dropouts; the decoder's when absent.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
}

impl Default for NeighbourEncoderConfig {
    fn default() -> Self {
        Self {
            n_layers: 2,
            d_model: None,
            cross: None,
            attention: None,
            feed_forward: None,
            position: None,
            dropout: None,
        }
    }
}

impl NeighbourEncoderConfig {
    /// Returns the encoder's stack config, beside a decoder's.
    pub(super) fn stack(&self, of: &StackConfig) -> StackConfig {
        let mut stack = StackConfig {
            d_model: self.d_model.unwrap_or(of.d_model),
            attention: self
                .attention
                .clone()
                .unwrap_or_else(|| of.attention.clone()),
            feed_forward: self
                .feed_forward
                .clone()
                .unwrap_or_else(|| of.feed_forward.clone()),
            position: self.position.clone().unwrap_or_else(|| of.position.clone()),
            reversible: None,
            share_layers: ShareConfig::default(),
            ..of.clone()
        };
        if let Some(dropout) = self.dropout {
            stack.dropout = dropout;
            stack.drop_path = 0.0;
            for own in [
                &mut stack.dropout_embedding,
                &mut stack.dropout_attention,
                &mut stack.dropout_residual,
                &mut stack.dropout_feed_forward,
                &mut stack.dropout_output,
            ] {
                *own = None;
            }
        }
        stack
    }

    /// Returns the depth of the encoder; `stack` is its stack config.
    pub(super) fn depth<'a>(&'a self, stack: &'a StackConfig) -> Depth<'a> {
        Depth {
            cross: Some(&stack.attention),
            cross_in: self.cross.as_deref(),
            ..self.depth_without_cross()
        }
    }

    /// Returns the depth of the encoder without cross-attention to the decoder.
    pub(super) fn depth_without_cross(&self) -> Depth<'_> {
        Depth {
            key: "n_layers",
            causal: false,
            n_layers: Some(self.n_layers),
            groups_key: "layers",
            groups: &[],
            cross: None,
            cross_in: None,
        }
    }

    pub(super) fn faults(&self, of: &StackConfig, width: usize, at: &mut TableFaults) {
        at.count("n_layers", self.n_layers, MAX_LAYERS);
        if let Some(blocks) = &self.cross {
            block_number_faults(blocks, "cross", self.n_layers, at);
        }
        let stack = self.stack(of);
        let wide = at.count("d_model", stack.d_model, MAX_WIDTH);
        let d_model = wide.then_some(stack.d_model);
        if let Some(dropout) = self.dropout {
            at.probability("dropout", dropout);
        }
        let attention = &stack.attention;
        let d_head = at.nested("attention", |at| {
            let head = attention.faults(d_model, at);
            attention.facts().faults_in_context(Some(width), false, at);
            if attention.facts().abilities().reads == ReadingDirection::Causal {
                let rule = format!(
                    "kind = \"{}\" reads from left to right, but neighbours are read both ways; use multi_head",
                    attention.kind()
                );
                at.fault(&["kind", "model.attention.kind"], rule);
            }
            memory_attention_faults(attention, at);
            head
        });
        at.nested("feed_forward", |at| {
            stack.feed_forward.faults(at);
            if stack.feed_forward.reads_earlier_positions() {
                let rule = "this kind reads from left to right, but neighbours are read both ways; use dense or gated";
                at.fault(&["kind", "model.feed_forward.kind"], rule);
            }
        });
        let known = KnownSizes {
            d_model,
            d_head,
            context: Some(width),
            is_image: false,
        };
        at.nested("position", |at| {
            stack.position.facts().faults(&known, at);
            position_faults(&stack, at);
        });
    }
}

/// Reports a position scheme that the neighbour encoder cannot use.
fn position_faults(stack: &StackConfig, at: &mut TableFaults) {
    let (position, keys) = (stack.position.facts(), ["kind", "model.position.kind"]);
    let kind = position.kind().kind;
    if position.causal_only() {
        let rule = format!(
            "kind = \"{kind}\" is for stacks that read from left to right, but neighbours are read both ways; use rotary, alibi, \
             relative_bias or none"
        );
        at.fault(&keys, rule);
    }
    let sinks = stack.attention.heads().sinks != Sinks::None;
    if sinks && position.acts_on() == ActsOn::Heads(HeadEffect::Vectors) {
        let rule = format!(
            "kind = \"{kind}\" uses vectors of distances, which cannot be combined with [model.attention] sinks; use rotary, \
             alibi or none"
        );
        at.fault(&keys, rule);
    }
}
