//! BLOOM (Le Scao et al. 2022): ALiBi, a norm on the embeddings, and a fused matrix with the query, key and value
//! of one head after another.

use super::stack_summary::summarize;
use super::{Family, HfShape, block, fused_by_group, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::alibi::AlibiConfig;
use crate::stack::StackConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "bloom",
    summary: "BLOOM: ALiBi positions, layer norm on the embeddings",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("apply_residual_connection_post_layernorm", false);
    // Keys of the code that trained the released models.
    for key in [
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "offset_alibi",
        "skip_bias_add",
        "skip_bias_add_qkv",
    ] {
        hf.get(key);
    }
    let parts = hf.get("pretraining_tp").and_then(Value::as_u64);
    if let Some(parts @ 2..) = parts
        && hf.flag("slow_but_exact", false)
    {
        hf.warn(format!(
            "`slow_but_exact` with `pretraining_tp` = {parts}: the class of transformers then adds no biases after the last \
             projections of attention and feed-forward layers, but this model does"
        ));
    }
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["n_layer", "num_hidden_layers"], 2)),
        embedding_norm: true,
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size", "n_embed"], 64),
            norm: layer_norm(hf.real("layer_norm_epsilon", 1e-5)),
            position: PositionConfig::Alibi(AlibiConfig::default()),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["n_head", "num_attention_heads"], 8),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: None,
                activation: Activation::GeluTanh,
                bias: true,
                ..DenseConfig::default()
            }),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("hidden_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 250_880);
    // ALiBi has no position table; the released models were trained on 2048 tokens.
    HfShape::language_model(config, vocab_size, hf.count(&["seq_length"], 2048))
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    Some(json!({
        "architectures": ["BloomForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "seq_length": of.shape.context,
        "hidden_size": config.stack.d_model,
        "n_layer": plain.layers,
        "n_head": plain.heads.n_heads,
        "layer_norm_epsilon": plain.eps,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": plain.dropout.attention,
        "hidden_dropout": plain.dropout.residual,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("transformer.");
    table.same("transformer.word_embeddings.weight", "embedding.weight");
    let norm = "transformer.word_embeddings_layernorm";
    table.norm(norm, "embedding.norm");
    let fused = fused_by_group(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.h.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let norm = format!("{theirs}.post_attention_layernorm");
        table.norm(&norm, &ours.feed_forward_norm);
        let qkv = format!("{theirs}.self_attention.query_key_value");
        table.fused(&qkv, &attention, Orientation::OutIn, fused);
        for (name, path) in [
            ("self_attention.dense", format!("{attention}.output")),
            ("mlp.dense_h_to_4h", format!("{mlp}.up")),
            ("mlp.dense_4h_to_h", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    table.norm("transformer.ln_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
