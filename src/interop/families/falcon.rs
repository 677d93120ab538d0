//! Falcon (Almazrouei et al. 2023): parallel layers after one norm (7B) or two (40B), one key-value head or one
//! per group, rotary positions. The RW models have ALiBi, biases and sequential layers.

use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, block, fused_by_group, layer_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::WHOLE_HEADS;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::alibi::AlibiConfig;
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "falcon",
    summary: "Falcon: parallel layers, few key-value heads, rotary positions or ALiBi",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("apply_residual_connection_post_layernorm", false);
    // Some of these keys only matter in some architectures and are read below only there.
    for key in [
        "num_kv_heads",
        "n_head_kv",
        "multi_query",
        "rope_parameters",
        "rope_theta",
        "rope_scaling",
    ] {
        hf.get(key);
    }
    let context = hf.count(&["max_position_embeddings"], 2048);
    let n_heads = hf.count(&["num_attention_heads", "n_head"], 71);
    let grouped = hf.flag("new_decoder_architecture", false);
    let n_kv_heads = match (grouped, hf.flag("multi_query", true)) {
        (true, _) => hf.count(&["num_kv_heads", "n_head_kv"], n_heads),
        (false, true) => 1,
        (false, false) => n_heads,
    };
    let parallel = grouped || hf.flag("parallel_attn", true);
    let norms = hf.count(&["num_ln_in_parallel_attn"], if grouped { 2 } else { 1 });
    if !(1..=2).contains(&norms)
        || (norms == 2 && !grouped)
        || (grouped && !hf.flag("parallel_attn", true))
    {
        hf.fault(
            "this combination of `new_decoder_architecture`, `parallel_attn` and `num_ln_in_parallel_attn` does not occur in a \
             released Falcon model",
        );
    }
    let d_model = hf.count(&["hidden_size", "n_embed"], 4544);
    let bias = hf.flag("bias", false);
    let position = if hf.flag("alibi", false) {
        PositionConfig::Alibi(AlibiConfig {
            scaled: true,
            ..AlibiConfig::default()
        })
    } else {
        PositionConfig::Rotary(hf.rotary(WHOLE_HEADS, context))
    };
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers", "n_layer"], 32)),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model,
            norm: layer_norm(hf.real("layer_norm_epsilon", 1e-5)),
            norm_placement: if parallel {
                NormPlacement::Parallel
            } else {
                NormPlacement::Pre
            },
            shared_parallel_norm: parallel.then_some(norms == 1),
            position,
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads,
                n_kv_heads: Some(n_kv_heads),
                bias,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["ffn_hidden_size"], 4 * d_model)),
                activation: hf.activation("activation", "gelu"),
                bias,
                ..DenseConfig::default()
            }),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("hidden_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 65024);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let (heads, kv) = (plain.heads.n_heads, plain.heads.n_kv_heads());
    let parallel = config.stack.norm_placement == NormPlacement::Parallel;
    let norms = if config.stack.shared_parallel_norm == Some(false) {
        2
    } else {
        1
    };
    let grouped = parallel && (norms == 2 || (kv != 1 && kv != heads));
    let mut written = json!({
        "architectures": ["FalconForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": heads,
        "num_kv_heads": kv,
        "multi_query": kv == 1,
        "new_decoder_architecture": grouped,
        "parallel_attn": parallel,
        "bias": plain.bias,
        "alibi": matches!(config.stack.position, PositionConfig::Alibi(_)),
        "ffn_hidden_size": plain.d_ff,
        "activation": plain.activation,
        "layer_norm_epsilon": plain.eps,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": plain.dropout.attention,
        "hidden_dropout": plain.dropout.residual,
    });
    if grouped {
        written["num_ln_in_parallel_attn"] = json!(norms);
    }
    if let Some(rotary) = rotary(&config.stack) {
        add_rotary(&mut written, rotary, "rope_theta");
    }
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("transformer.");
    table.same("transformer.word_embeddings.weight", "embedding.weight");
    let fused = fused_by_group(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.h.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        let first = match config.stack.shared_parallel_norm {
            Some(false) => "ln_attn",
            Some(true) | None => "input_layernorm",
        };
        table.norm(&format!("{theirs}.{first}"), &ours.attention_norm);
        table.norm(&format!("{theirs}.ln_mlp"), &ours.parallel_norm);
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
    table.ignored = vec![
        "rotary_emb.inv_freq",
        "self_attention.maybe_rotary.inv_freq",
    ];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
