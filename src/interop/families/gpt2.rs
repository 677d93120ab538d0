//! GPT-2 (Radford et al. 2019): pre-norm, learned positions, tied embeddings, `Conv1D` matrices.

use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, block, fused_in_thirds, layer_norm, multi_head, multi_head_mut};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{LayerGroup, NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gpt2",
    summary: "GPT-2: pre-norm, learned positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("add_cross_attention", false);
    let scaled = hf.flag("scale_attn_weights", true);
    let activation = hf.activation("activation_function", "gelu_new");
    let mut config = read_gpt(hf, NormPlacement::Pre, activation);
    multi_head_mut(&mut config).scale = (!scaled).then_some(1.0);
    config.tie_embeddings = hf.flag("tie_word_embeddings", true);
    if hf.flag("scale_attn_by_inverse_layer_idx", false) {
        config.layers = scaled_by_layer(&config);
    }
    let vocab_size = hf.count(&["vocab_size"], 50257);
    HfShape::language_model(config, vocab_size, hf.count(&["n_positions"], 1024))
}

/// Blocks whose attention scores are divided by the block's number, counted from 1.
fn scaled_by_layer(config: &DecoderConfig) -> Vec<LayerGroup> {
    let attention = multi_head(config);
    let d_head = attention.d_head(config.stack.d_model).max(1);
    let scale = attention.scale.unwrap_or(1.0 / (d_head as f64).sqrt());
    let block = |layer: usize| LayerGroup {
        attention: Some(AttentionConfig::MultiHead(MultiHeadConfig {
            scale: Some(scale / (layer + 1) as f64),
            ..attention.clone()
        })),
        feed_forward: Some(config.stack.feed_forward.clone()),
        ..LayerGroup::default()
    };
    (0..config.n_layers()).map(block).collect()
}

/// The config that GPT and GPT-2 have in common.
pub(super) fn read_gpt(
    hf: &HfConfig,
    norm_placement: NormPlacement,
    activation: Activation,
) -> DecoderConfig {
    let context = hf.count(&["n_positions"], 1024);
    DecoderConfig {
        n_layers: Some(hf.count(&["n_layer"], 12)),
        tie_embeddings: true,
        stack: StackConfig {
            d_model: hf.count(&["n_embd"], 768),
            norm: layer_norm(hf.real("layer_norm_epsilon", 1e-5)),
            norm_placement,
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context),
                ..LearnedConfig::default()
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["n_head"], 12),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: hf.count_if_any(&["n_inner"]),
                activation,
                bias: true,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(hf.real("embd_pdrop", 0.1)),
            dropout_attention: Some(hf.real("attn_pdrop", 0.1)),
            dropout_residual: Some(hf.real("resid_pdrop", 0.1)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let d_head = plain.d_head.max(1);
    let scale = plain.heads.scale.unwrap_or(1.0 / (d_head as f64).sqrt());
    let scales = config.stack.blocks(&config.depth()).nth(1);
    let second = scales.and_then(|block| block.attention?.heads().scale);
    Some(json!({
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": of.shape.vocab_size,
        "n_positions": positions(&config.stack, of.shape.context),
        "n_embd": config.stack.d_model,
        "n_layer": plain.layers,
        "n_head": plain.heads.n_heads,
        "n_inner": plain.d_ff,
        "activation_function": plain.activation,
        "layer_norm_epsilon": plain.eps,
        "scale_attn_weights": scale != 1.0,
        "scale_attn_by_inverse_layer_idx": second.is_some_and(|second| second < scale),
        "tie_word_embeddings": config.tie_embeddings,
        "embd_pdrop": plain.dropout.embedding,
        "attn_pdrop": plain.dropout.attention,
        "resid_pdrop": plain.dropout.residual,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("transformer.");
    table.same("transformer.wte.weight", "embedding.weight");
    table.same("transformer.wpe.weight", "position.table");
    add_blocks(&mut table, config);
    table.norm("transformer.ln_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec![".attn.bias", ".attn.masked_bias"];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}

/// Adds the blocks of GPT and GPT-2.
pub(super) fn add_blocks(table: &mut Table, config: &DecoderConfig) {
    let fused = fused_in_thirds(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.h.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.ln_1"), &ours.attention_norm);
        let c_attn = format!("{theirs}.attn.c_attn");
        table.fused(&c_attn, &attention, Orientation::InOut, fused);
        let linear = |table: &mut Table, name: &str, path: String| {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::InOut);
        };
        linear(table, "attn.c_proj", format!("{attention}.output"));
        table.norm(&format!("{theirs}.ln_2"), &ours.feed_forward_norm);
        linear(table, "mlp.c_fc", format!("{mlp}.up"));
        linear(table, "mlp.c_proj", format!("{mlp}.down"));
    }
}
