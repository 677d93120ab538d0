//! The values that most config.json files have, taken from one of our networks.

use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::moe::ExpertConfig;
use crate::nn::feed_forward::{Activation, FeedForwardConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{RotaryConfig, ScalingConfig};
use crate::stack::{Depth, Dropout, StackConfig};
use serde_json::{Map, Value, json};

/// The values of a stack, taken from its first block. Whether the other blocks are equal is found when the written config is
/// read back.
pub(super) struct StackSummary {
    pub layers: usize,
    pub heads: MultiHeadConfig,
    pub d_head: usize,
    pub d_ff: usize,
    /// HF's name of the activation of feed-forward layers.
    pub activation: &'static str,
    pub gated: bool,
    pub bias: bool,
    pub eps: f64,
    pub dropout: Dropout,
}

/// The epsilon written for a norm that has none.
const DEFAULT_EPS: f64 = 1e-5;

/// The values of a stack; `None` if its first block has no attention or no feed-forward layer.
pub(super) fn summarize(stack: &StackConfig, depth: &Depth) -> Option<StackSummary> {
    let block = stack.block(depth, 0);
    let (attention, d_model) = (block.attention?, stack.d_model);
    let heads = attention.heads();
    let (d_ff, activation, gated, bias) = match block.feed_forward? {
        FeedForwardConfig::Dense(c) => (c.d_ff(d_model), c.activation, false, c.bias),
        FeedForwardConfig::Gated(c) => (c.d_ff(d_model), c.activation, true, c.bias),
        FeedForwardConfig::Moe(moe) => match &moe.expert {
            ExpertConfig::Dense(c) => (c.d_ff(d_model), c.activation, false, c.bias),
            ExpertConfig::Gated(c) => (c.d_ff(d_model), c.activation, true, c.bias),
        },
        FeedForwardConfig::Rwkv(_) | FeedForwardConfig::Rwkv7(_) => return None,
    };
    Some(StackSummary {
        layers: depth.blocks(),
        d_head: heads.d_head(d_model),
        heads,
        d_ff,
        activation: activation_name(activation),
        gated,
        bias,
        eps: match &stack.norm {
            NormConfig::Layer(c) => c.eps,
            NormConfig::Rms(c) => c.eps,
            // No family has these norms: the config reads back with another norm, with this epsilon.
            NormConfig::Scale(_) | NormConfig::DynamicTanh(_) => DEFAULT_EPS,
            NormConfig::None(_) => return None,
        },
        dropout: stack.dropouts(),
    })
}

/// The number of tokens for which a table of learned positions has rows, which may be more than the context length (`context`);
/// the context length for other positions.
pub(super) fn positions(stack: &StackConfig, context: usize) -> usize {
    let learned = stack.position.learned();
    let rows = learned.and_then(|c| Some(c.max_len?.saturating_sub(c.first)));
    rows.unwrap_or(context)
}

/// HF's name of an activation function.
pub(super) fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_new",
        Activation::Silu => "silu",
        Activation::ReluSquared => "relu2",
        Activation::QuickGelu => "quick_gelu",
        Activation::Sigmoid => "sigmoid",
    }
}

/// The rotary positions of a stack; `None` for any other scheme.
pub(super) fn rotary(stack: &StackConfig) -> Option<&RotaryConfig> {
    match &stack.position {
        PositionConfig::Rotary(rotary) => Some(rotary),
        _ => None,
    }
}

/// Adds the keys of rotary positions; `theta` is the family's name of the base.
pub(super) fn add_rotary(config: &mut Value, rotary: &RotaryConfig, theta: &str) {
    config[theta] = json!(rotary.theta);
    let mut keys = Map::new();
    let mut add = |kind: &str, values: &[(&str, Value)]| {
        keys.insert("rope_type".into(), kind.into());
        keys.extend(values.iter().map(|(k, v)| ((*k).to_string(), v.clone())));
    };
    match &rotary.scaling {
        ScalingConfig::None(_) => {}
        ScalingConfig::Linear(c) => add("linear", &[("factor", json!(c.factor))]),
        // HF has no fixed form of NTK scaling: the config reads back differently.
        ScalingConfig::Ntk(_) => {}
        ScalingConfig::Yarn(c) => {
            let context = json!(c.original_context);
            let mut values = vec![
                ("factor", json!(c.factor)),
                ("original_max_position_embeddings", context),
                ("beta_fast", json!(c.beta_fast)),
                ("beta_slow", json!(c.beta_slow)),
            ];
            values.extend(c.magnitude.map(|m| ("attention_factor", json!(m))));
            values.extend((!c.truncate).then_some(("truncate", json!(false))));
            add("yarn", &values);
        }
        ScalingConfig::Llama3(c) => add(
            "llama3",
            &[
                ("factor", json!(c.factor)),
                (
                    "original_max_position_embeddings",
                    json!(c.original_context),
                ),
                ("low_freq_factor", json!(c.low_freq_factor)),
                ("high_freq_factor", json!(c.high_freq_factor)),
            ],
        ),
        ScalingConfig::Longrope(c) => {
            let context = json!(c.original_context);
            let mut values = vec![
                ("short_factor", json!(c.short_factor)),
                ("long_factor", json!(c.long_factor)),
                ("original_max_position_embeddings", context),
            ];
            values.extend(c.factor.map(|f| ("factor", json!(f))));
            values.extend(c.magnitude.map(|m| ("attention_factor", json!(m))));
            add("longrope", &values);
        }
    }
    if !keys.is_empty() {
        config["rope_scaling"] = Value::Object(keys);
    }
}
