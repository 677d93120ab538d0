//! GPT-J (Wang and Komatsuzaki 2021): parallel layers after one norm, interleaved rotary positions on a part of
//! each head, a bias on the LM head.

use super::stack_summary::{rotary, summarize};
use super::{Family, HfShape, block, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{Pairing, RotaryConfig};
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gptj",
    summary: "GPT-J: parallel layers after one norm, interleaved partial rotary positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("tie_word_embeddings", false);
    for key in ["rotary", "scale_attn_weights"] {
        hf.only(key, true);
    }
    let context = hf.count(&["n_positions"], 2048);
    let d_model = hf.count(&["n_embd"], 4096);
    let attention = MultiHeadConfig {
        n_heads: hf.count(&["n_head"], 16),
        bias: false,
        ..MultiHeadConfig::default()
    };
    let d_head = attention.d_head(d_model).max(1);
    let rotated = hf.count(&["rotary_dim"], d_head);
    let rotary = RotaryConfig {
        pairing: Pairing::Interleaved,
        fraction: rotated as f64 / d_head as f64,
        ..RotaryConfig::default()
    };
    if rotary.rotated_width(d_head) != rotated || rotated > d_head {
        hf.fault(format!(
            "`rotary_dim` = {rotated} must be even and at most the head size {d_head}"
        ));
    }
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["n_layer"], 28)),
        tie_embeddings: false,
        head_bias: true,
        stack: StackConfig {
            d_model,
            norm: layer_norm(hf.real("layer_norm_epsilon", 1e-5)),
            norm_placement: NormPlacement::Parallel,
            shared_parallel_norm: Some(true),
            position: PositionConfig::Rotary(rotary),
            attention: AttentionConfig::MultiHead(attention),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: hf.count_if_any(&["n_inner"]),
                activation: hf.activation("activation_function", "gelu_new"),
                bias: true,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(hf.real("embd_pdrop", 0.0)),
            dropout_attention: Some(hf.real("attn_pdrop", 0.0)),
            dropout_residual: Some(hf.real("resid_pdrop", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 50400);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let rotary = rotary(&config.stack)?;
    Some(json!({
        "architectures": ["GPTJForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "n_positions": of.shape.context,
        "n_embd": config.stack.d_model,
        "n_layer": plain.layers,
        "n_head": plain.heads.n_heads,
        "n_inner": plain.d_ff,
        "rotary_dim": rotary.rotated_width(plain.d_head),
        "activation_function": plain.activation,
        "layer_norm_epsilon": plain.eps,
        "tie_word_embeddings": false,
        "embd_pdrop": plain.dropout.embedding,
        "attn_pdrop": plain.dropout.attention,
        "resid_pdrop": plain.dropout.residual,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("transformer.");
    table.same("transformer.wte.weight", "embedding.weight");
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.h.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.ln_1"), &ours.attention_norm);
        for (name, path) in [
            ("attn.q_proj", format!("{attention}.query")),
            ("attn.k_proj", format!("{attention}.key")),
            ("attn.v_proj", format!("{attention}.value")),
            ("attn.out_proj", format!("{attention}.output")),
            ("mlp.fc_in", format!("{mlp}.up")),
            ("mlp.fc_out", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    table.norm("transformer.ln_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec![".attn.bias", ".attn.masked_bias"];
    table.within("model.")
}
