//! LLaMA 1 to 3 (Touvron et al. 2023): pre-norm RMS norms, rotary positions, SwiGLU, grouped queries.

use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, block, rms_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{FeedForwardConfig, GatedConfig};
use crate::nn::position::PositionConfig;
use crate::stack::StackConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "llama",
    summary: "LLaMA: RMS norm, rotary positions, gated feed-forward, grouped queries",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    shape(hf, config(hf))
}

/// A model with this config.
pub(super) fn shape(hf: &HfConfig, config: DecoderConfig) -> HfShape {
    let context = hf.count(&["max_position_embeddings"], 2048);
    HfShape::language_model(config, hf.count(&["vocab_size"], 32000), context)
}

/// The config of LLaMA, which Mistral and Qwen build on.
pub(super) fn config(hf: &HfConfig) -> DecoderConfig {
    config_with_rotary(hf, WHOLE_HEADS)
}

/// Same as [`config`], with other keys and defaults of rotary positions.
pub(super) fn config_with_rotary(hf: &HfConfig, keys: RotaryKeys) -> DecoderConfig {
    let context = hf.count(&["max_position_embeddings"], 2048);
    let bias = hf.flag("attention_bias", false);
    let n_heads = hf.count(&["num_attention_heads"], 32);
    DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 32)),
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 4096),
            norm: rms_norm(hf.real("rms_norm_eps", 1e-6)),
            position: PositionConfig::Rotary(hf.rotary(keys, context)),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads,
                n_kv_heads: Some(hf.count(&["num_key_value_heads"], n_heads)),
                d_head: hf.count_if_any(&["head_dim"]),
                bias,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Gated(GatedConfig {
                d_ff: Some(hf.count(&["intermediate_size"], 11008)),
                activation: hf.activation("hidden_act", "silu"),
                bias: hf.flag("mlp_bias", false),
                ..GatedConfig::default()
            }),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    write_as(of, "LlamaForCausalLM")
}

/// The keys that Mistral, Mixtral and Qwen share with LLaMA.
pub(super) fn write_as(of: &HfShape, class: &str) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let mut written = json!({
        "architectures": [class],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "num_key_value_heads": plain.heads.n_kv_heads(),
        "head_dim": plain.d_head,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "rms_norm_eps": plain.eps,
        "attention_bias": plain.heads.bias,
        "mlp_bias": plain.bias,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": plain.dropout.attention,
    });
    add_rotary(&mut written, rotary(&config.stack)?, "rope_theta");
    Some(written)
}

/// Removes `head_dim` if it is the width that classes without this key compute; if the key is present, they use it.
pub(super) fn remove_default_head_dim(written: &mut Value) {
    let number = |key: &str| written[key].as_u64().unwrap_or_default();
    let usual = number("hidden_size") / number("num_attention_heads").max(1);
    if number("head_dim") == usual
        && let Some(keys) = written.as_object_mut()
    {
        keys.shift_remove("head_dim");
    }
}

/// Reports a fault if a file asks for biases that the class does not have.
pub(super) fn require_no_biases(hf: &HfConfig, keys: &[&str]) {
    for key in keys {
        hf.only(key, false);
    }
}

/// The window of the first block's attention, if it has one.
pub(super) fn window(of: &HfShape) -> Option<usize> {
    let config = of.decoder_if_any()?;
    match config.stack.block(&config.depth(), 0).attention? {
        AttentionConfig::SlidingWindow(c) => Some(c.window),
        _ => None,
    }
}

/// The table of LLaMA, also used by Mistral and Qwen; rules whose parameters a model lacks are skipped.
pub(super) fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("model.");
    table.same("model.embed_tokens.weight", "embedding.weight");
    for layer in 0..config.n_layers() {
        let theirs = format!("model.layers.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let norm = format!("{theirs}.post_attention_layernorm");
        table.norm(&norm, &ours.feed_forward_norm);
        for (name, norm) in [("q_norm", "query_norm"), ("k_norm", "key_norm")] {
            let theirs = format!("{theirs}.self_attn.{name}");
            table.norm(&theirs, &format!("{attention}.{norm}"));
        }
        for (name, path) in [
            ("self_attn.q_proj", format!("{attention}.query")),
            ("self_attn.k_proj", format!("{attention}.key")),
            ("self_attn.v_proj", format!("{attention}.value")),
            ("self_attn.o_proj", format!("{attention}.output")),
            ("mlp.gate_proj", format!("{mlp}.gate")),
            ("mlp.up_proj", format!("{mlp}.up")),
            ("mlp.down_proj", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    with_norm_and_head(table, config.tie_embeddings)
}

/// Adds the last norm and the LM head to a table of embeddings and blocks.
pub(super) fn with_norm_and_head(mut table: Table, tied: bool) -> Table {
    table.norm("model.norm", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec!["rotary_emb.inv_freq"];
    if tied {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
