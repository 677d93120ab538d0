//! MPT (MosaicML 2023): ALiBi, no biases anywhere, norms without shift.
//!
//! `alibi_bias_max` is the exponent of the last head's slope, as in MosaicML's code, which trained the released models.
//! The class of transformers 5 has the key in its config but always computes with 8; a note reports any other value. If
//! the number of heads is not a power of two, slopes are BLOOM's, in the same order.

use super::stack_summary::summarize;
use super::{Family, HfShape, block, fused_in_thirds};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::norm::{LayerNormConfig, NormConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::alibi::AlibiConfig;
use crate::stack::StackConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mpt",
    summary: "MPT: ALiBi, no biases",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("no_bias", true);
    hf.only("expansion_ratio", 4);
    hf.only("embedding_fraction", 1.0);
    hf.only("norm_type", "low_precision_layernorm");
    for key in [
        "learned_pos_emb",
        "init_config",
        "init_device",
        "tokenizer_name",
    ] {
        hf.get(key);
    }
    if let Some(scale) = hf.get("logit_scale") {
        hf.fault(format!("`logit_scale` = {scale} is not supported"));
    }
    let attention = hf.nested("attn_config");
    attention.only("attn_type", "multihead_attention");
    attention.only("alibi", true);
    attention.only("qk_ln", false);
    attention.only("prefix_lm", false);
    for key in ["attn_impl", "attn_uses_sequence_id"] {
        attention.get(key);
    }
    // 0 means no clipping here.
    let clip = match attention.get("clip_qkv").and_then(Value::as_f64) {
        Some(0.0) => None,
        _ => attention.clip("clip_qkv"),
    };
    let max_exponent = attention.real("alibi_bias_max", 8.0);
    if max_exponent <= 0.0 {
        attention.fault(format!("`alibi_bias_max` = {max_exponent} must be above 0"));
    }
    if max_exponent != 8.0 {
        hf.warn(format!(
            "`alibi_bias_max` = {max_exponent} is used as in MosaicML's code; transformers' MptForCausalLM ignores this key, \
             uses 8 and produces different logits"
        ));
    }
    let dropout = attention.real("attn_pdrop", 0.0);
    let scale = attention.typed("softmax_scale", "a number", |v| v.as_f64());
    hf.merge_faults(attention);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["n_layers"], 24)),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model: hf.count(&["d_model"], 2048),
            norm: NormConfig::Layer(LayerNormConfig {
                eps: hf.real("layer_norm_epsilon", 1e-5),
                bias: false,
                ..LayerNormConfig::default()
            }),
            position: PositionConfig::Alibi(AlibiConfig {
                max_exponent,
                scaled: false,
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["n_heads"], 16),
                bias: false,
                clip,
                scale,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: None,
                activation: Activation::Gelu,
                bias: false,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(hf.real("emb_pdrop", 0.0)),
            dropout_attention: Some(dropout),
            dropout_residual: Some(dropout),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 50368);
    HfShape::language_model(config, vocab_size, hf.count(&["max_seq_len"], 2048))
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let PositionConfig::Alibi(alibi) = &config.stack.position else {
        return None;
    };
    Some(json!({
        "architectures": ["MptForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_seq_len": of.shape.context,
        "d_model": config.stack.d_model,
        "n_layers": plain.layers,
        "n_heads": plain.heads.n_heads,
        "expansion_ratio": 4,
        "layer_norm_epsilon": plain.eps,
        "no_bias": true,
        "tie_word_embeddings": config.tie_embeddings,
        "emb_pdrop": plain.dropout.embedding,
        "attn_config": {
            "alibi": true,
            // The class requires a whole number; other values are refused when the config is read back.
            "alibi_bias_max": alibi.max_exponent as i64,
            // The class requires a whole number.
            "attn_pdrop": 0,
            "softmax_scale": plain.heads.scale,
            "clip_qkv": plain.heads.clip,
        },
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
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
        table.fused(&qkv, &attention, Orientation::OutIn, fused);
        for (name, path) in [
            ("attn.out_proj", format!("{attention}.output")),
            ("ffn.up_proj", format!("{mlp}.up")),
            ("ffn.down_proj", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    table.norm("transformer.norm_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
