//! GPT-2 (Radford et al. 2019): pre-norm, learned positions, tied embeddings, `Conv1D` matrices.

use super::{Family, HfShape, block, fused_in_thirds, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Stored, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gpt2",
    summary: "GPT-2: pre-norm, learned positions",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("scale_attn_by_inverse_layer_idx", false);
    hf.only("add_cross_attention", false);
    let scaled = hf.flag("scale_attn_weights", true);
    let activation = hf.activation("activation_function", "gelu_new");
    let mut shape = read_gpt(hf, NormPlacement::Pre, activation);
    let AttentionConfig::MultiHead(attention) = &mut shape.config.stack.attention else {
        unreachable!("the family it builds on has multi-head attention")
    };
    attention.scale = (!scaled).then_some(1.0);
    shape.config.tie_embeddings = hf.flag("tie_word_embeddings", true);
    shape
}

/// What GPT and GPT-2 have in common.
pub(super) fn read_gpt(
    hf: &HfConfig,
    norm_placement: NormPlacement,
    activation: Activation,
) -> HfShape {
    let context = hf.count(&["n_positions"], 1024);
    let config = DecoderConfig {
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
            }),
            dropout_embedding: Some(hf.real("embd_pdrop", 0.1)),
            dropout_attention: Some(hf.real("attn_pdrop", 0.1)),
            dropout_residual: Some(hf.real("resid_pdrop", 0.1)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    HfShape {
        config,
        vocab_size: hf.count(&["vocab_size"], 50257),
        context,
    }
}

fn table(config: &DecoderConfig) -> Table {
    let mut table = Table::new("transformer.");
    table.same("transformer.wte.weight", "embedding.weight");
    table.same("transformer.wpe.weight", "position.table");
    add_blocks(&mut table, config);
    table.norm("transformer.ln_f", "stack.final_norm");
    table.linear("lm_head", "head", Stored::OutIn);
    table.ignored = vec![".attn.bias", ".attn.masked_bias"];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table
}

/// The blocks of GPT and GPT-2.
pub(super) fn add_blocks(table: &mut Table, config: &DecoderConfig) {
    let fused = fused_in_thirds(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.h.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.ln_1"), &ours.attention_norm);
        let c_attn = format!("{theirs}.attn.c_attn");
        table.fused(&c_attn, &attention, Stored::InOut, fused);
        let linear = |table: &mut Table, name: &str, path: String| {
            table.linear(&format!("{theirs}.{name}"), &path, Stored::InOut);
        };
        linear(table, "attn.c_proj", format!("{attention}.output"));
        table.norm(&format!("{theirs}.ln_2"), &ours.feed_forward_norm);
        linear(table, "mlp.c_fc", format!("{mlp}.up"));
        linear(table, "mlp.c_proj", format!("{mlp}.down"));
    }
}
