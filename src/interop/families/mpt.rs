//! MPT (MosaicML 2023): ALiBi, no biases anywhere, norms without shift.

use super::{Family, HfShape, block, fused_in_thirds, multi_head};
use crate::interop::HfConfig;
use crate::interop::rename::{Stored, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::norm::{LayerNormConfig, NormConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::alibi::AlibiConfig;
use crate::stack::StackConfig;

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mpt",
    summary: "MPT: ALiBi, no biases",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("no_bias", true);
    hf.only("expansion_ratio", 4);
    hf.only("embedding_fraction", 1.0);
    if let Some(scale) = hf.get("logit_scale") {
        hf.fault(format!("`logit_scale` = {scale} is not supported"));
    }
    let attention = hf.nested("attn_config");
    attention.only("attn_type", "multihead_attention");
    attention.only("alibi", true);
    attention.only("qk_ln", false);
    attention.only("prefix_lm", false);
    if let Some(clip) = attention
        .get("clip_qkv")
        .filter(|v| v.as_f64() != Some(0.0))
    {
        attention.fault(format!("`clip_qkv` = {clip} is not supported"));
    }
    let max_exponent = attention.real("alibi_bias_max", 8.0);
    let dropout = attention.real("attn_pdrop", 0.0);
    let scale = attention.get("softmax_scale").and_then(|v| v.as_f64());
    hf.adopt(attention);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["n_layers"], 24)),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model: hf.count(&["d_model"], 2048),
            norm: NormConfig::Layer(LayerNormConfig {
                eps: hf.real("layer_norm_epsilon", 1e-5),
                bias: false,
            }),
            position: PositionConfig::Alibi(AlibiConfig {
                max_exponent,
                scaled: false,
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["n_heads"], 16),
                bias: false,
                scale,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: None,
                activation: Activation::Gelu,
                bias: false,
            }),
            dropout_embedding: Some(hf.real("emb_pdrop", 0.0)),
            dropout_attention: Some(dropout),
            dropout_residual: Some(dropout),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let heads = multi_head(&config).n_heads;
    if !heads.is_power_of_two() {
        hf.fault(format!(
            "`n_heads` = {heads}: MPT orders the slopes of a number of heads that is not a power of two in its own way"
        ));
    }
    HfShape {
        config,
        vocab_size: hf.count(&["vocab_size"], 50368),
        context: hf.count(&["max_seq_len"], 2048),
    }
}

fn table(config: &DecoderConfig) -> Table {
    let mut table = Table::new("transformer.");
    table.same("transformer.wte.weight", "embedding.weight");
    let fused = fused_in_thirds(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.blocks.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.norm_1"), &ours.attention_norm);
        table.norm(&format!("{theirs}.norm_2"), &ours.feed_forward_norm);
        let qkv = format!("{theirs}.attn.Wqkv");
        table.fused(&qkv, &attention, Stored::OutIn, fused);
        for (name, path) in [
            ("attn.out_proj", format!("{attention}.output")),
            ("ffn.up_proj", format!("{mlp}.up")),
            ("ffn.down_proj", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Stored::OutIn);
        }
    }
    table.norm("transformer.norm_f", "stack.final_norm");
    table.linear("lm_head", "head", Stored::OutIn);
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table
}
