//! GPT-NeoX and Pythia (Black et al. 2022): parallel layers with a norm each, partial rotary positions, and a
//! fused matrix with the query, key and value of one head after another.

use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, block, fused_by_group, layer_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gpt_neox",
    summary: "GPT-NeoX, Pythia: parallel layers with a norm each, partial rotary positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // The class is a decoder whatever this key says.
    hf.get("is_decoder");
    let context = hf.count(&["max_position_embeddings"], 2048);
    // Key names of version 4 of transformers; version 5 has both in `rope_parameters`.
    let keys = RotaryKeys {
        theta: "rotary_emb_base",
        fraction: Some(("rotary_pct", 0.25)),
        ..WHOLE_HEADS
    };
    let rotary = hf.rotary(keys, context);
    // The class ignores the second names, which other families use.
    hf.require_agreement(["rotary_emb_base", "rope_theta"], rotary.theta);
    hf.require_agreement(["rotary_pct", "partial_rotary_factor"], rotary.fraction);
    let parallel = hf.flag("use_parallel_residual", true);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 44)),
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 6144),
            norm: layer_norm(hf.real("layer_norm_eps", 1e-5)),
            norm_placement: if parallel {
                NormPlacement::Parallel
            } else {
                NormPlacement::Pre
            },
            shared_parallel_norm: parallel.then_some(false),
            position: PositionConfig::Rotary(rotary),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], 64),
                bias: hf.flag("attention_bias", true),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["intermediate_size"], 24576)),
                activation: hf.activation("hidden_act", "gelu"),
                bias: true,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(hf.real("hidden_dropout", 0.0)),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("hidden_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 50432);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let rotary = rotary(&config.stack)?;
    let mut written = json!({
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "layer_norm_eps": plain.eps,
        "rotary_pct": rotary.fraction,
        "use_parallel_residual": config.stack.norm_placement == NormPlacement::Parallel,
        "attention_bias": plain.heads.bias,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": plain.dropout.attention,
        "hidden_dropout": plain.dropout.residual,
    });
    add_rotary(&mut written, rotary, "rotary_emb_base");
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("gpt_neox.");
    table.same("gpt_neox.embed_in.weight", "embedding.weight");
    let fused = fused_by_group(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("gpt_neox.layers.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let second = match config.stack.norm_placement {
            NormPlacement::Parallel => &ours.parallel_norm,
            NormPlacement::Pre
            | NormPlacement::Post
            | NormPlacement::Sandwich
            | NormPlacement::ResPost
            | NormPlacement::Deepnorm => &ours.feed_forward_norm,
        };
        table.norm(&format!("{theirs}.post_attention_layernorm"), second);
        let qkv = format!("{theirs}.attention.query_key_value");
        table.fused(&qkv, &attention, Orientation::OutIn, fused);
        for (name, path) in [
            ("attention.dense", format!("{attention}.output")),
            ("mlp.dense_h_to_4h", format!("{mlp}.up")),
            ("mlp.dense_4h_to_h", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    table.norm("gpt_neox.final_layer_norm", "stack.final_norm");
    table.linear("embed_out", "head", Orientation::OutIn);
    // The name in version 5's own module.
    table.alias("lm_head.weight".into(), "head.weight".into());
    table.ignored = vec![
        ".attention.bias",
        ".attention.masked_bias",
        "rotary_emb.inv_freq",
    ];
    if config.tie_embeddings {
        table.ignored.extend(["embed_out.weight", "lm_head.weight"]);
    }
    table.within("model.")
}
