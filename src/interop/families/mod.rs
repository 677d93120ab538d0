//! The architectures whose HF folders can be imported, one file each.

pub mod bloom;
pub mod falcon;
pub mod gpt2;
pub mod gpt_neox;
pub mod gptj;
pub mod llama;
pub mod mistral;
pub mod mpt;
pub mod openai_gpt;
pub mod qwen2;
pub mod qwen3;
pub mod t5_stack;

use super::hf_config::HfConfig;
use super::rename::{Fused, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::norm::{LayerNormConfig, NormConfig, RmsNormConfig};

/// What a config.json says about a model.
#[derive(Clone, Debug, PartialEq)]
pub struct HfShape {
    /// The model as ours.
    pub config: DecoderConfig,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Longest input in tokens.
    pub context: usize,
}

/// One architecture of HF.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The value of `model_type` in config.json.
    pub model_type: &'static str,
    /// One line that says what it is.
    pub summary: &'static str,
    /// Our config from a config.json; unsupported options become faults of the argument.
    pub read: fn(&HfConfig) -> HfShape,
    /// The names of a model of this config.
    pub table: fn(&DecoderConfig) -> Table,
}

/// Every architecture that can be imported.
pub const FAMILIES: &[Family] = &[
    bloom::FAMILY,
    falcon::FAMILY,
    gpt2::FAMILY,
    gpt_neox::FAMILY,
    gptj::FAMILY,
    llama::FAMILY,
    mistral::FAMILY,
    mpt::FAMILY,
    openai_gpt::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    t5_stack::FAMILY,
];

/// Our paths of the parts of a block.
struct BlockPaths {
    attention: String,
    /// Around attention, or around both layers when parallel.
    attention_norm: String,
    feed_forward: String,
    feed_forward_norm: String,
    parallel_norm: String,
}

/// The paths of block `layer`.
fn block(layer: usize) -> BlockPaths {
    let block = format!("stack.blocks.{layer}");
    BlockPaths {
        attention: format!("{block}.attention"),
        attention_norm: format!("{block}.attention_residual.norm"),
        feed_forward: format!("{block}.feed_forward"),
        feed_forward_norm: format!("{block}.feed_forward_residual.norm"),
        parallel_norm: format!("{block}.parallel_norm"),
    }
}

/// Layer norm with a shift.
fn layer_norm(eps: f64) -> NormConfig {
    NormConfig::Layer(LayerNormConfig { eps, bias: true })
}

/// RMS norm.
fn rms_norm(eps: f64) -> NormConfig {
    NormConfig::Rms(RmsNormConfig { eps })
}

/// The attention's knobs.
fn multi_head(config: &DecoderConfig) -> MultiHeadConfig {
    config.stack.attention.heads()
}

/// All queries, then all keys, then all values.
fn fused_in_thirds(config: &DecoderConfig) -> Fused {
    let attention = multi_head(config);
    Fused {
        groups: 1,
        query: attention.n_heads,
        key_value: attention.n_kv_heads(),
        d_head: attention.d_head(config.stack.d_model),
    }
}

/// For each key-value head: its query heads, its key, its value.
fn fused_by_group(config: &DecoderConfig) -> Fused {
    let attention = multi_head(config);
    let groups = attention.n_kv_heads();
    Fused {
        groups,
        query: attention.n_heads / groups.max(1),
        key_value: 1,
        d_head: attention.d_head(config.stack.d_model),
    }
}
