//! Phi-1, 1.5 and 2 (Gunasekar et al. 2023, arXiv:2306.11644; Li et al. 2023, arXiv:2309.05463): parallel layers after one norm,
//! rotary positions on a part of each head, biases on all projections and on the LM head.

use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, block, layer_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "phi",
    summary: "Phi-1, 1.5 and 2: parallel layers after one norm, partial rotary positions, biases",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // A tied head has no bias here, but the class adds one.
    hf.only("tie_word_embeddings", false);
    let context = hf.count(&["max_position_embeddings"], 2048);
    let keys = RotaryKeys {
        fraction: Some(("partial_rotary_factor", 0.5)),
        ..WHOLE_HEADS
    };
    let n_heads = hf.count(&["num_attention_heads"], 32);
    let norm = layer_norm(hf.real("layer_norm_eps", 1e-5));
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 24)),
        tie_embeddings: false,
        head_bias: true,
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 2048),
            norm: norm.clone(),
            norm_placement: NormPlacement::Parallel,
            shared_parallel_norm: Some(true),
            position: PositionConfig::Rotary(hf.rotary(keys, context)),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads,
                n_kv_heads: Some(hf.count(&["num_key_value_heads"], n_heads)),
                qk_norm: match hf.flag("qk_layernorm", false) {
                    true => norm,
                    false => NormConfig::none(),
                },
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["intermediate_size"], 8192)),
                activation: hf.activation("hidden_act", "gelu_new"),
                bias: true,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(hf.real("embd_pdrop", 0.0)),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("resid_pdrop", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 51200);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let rotary = rotary(&config.stack)?;
    let mut written = json!({
        "architectures": ["PhiForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "num_key_value_heads": plain.heads.n_kv_heads(),
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "layer_norm_eps": plain.eps,
        "partial_rotary_factor": rotary.fraction,
        "qk_layernorm": !plain.heads.qk_norm.is_none(),
        "tie_word_embeddings": false,
        "embd_pdrop": plain.dropout.embedding,
        "attention_dropout": plain.dropout.attention,
        "resid_pdrop": plain.dropout.residual,
    });
    add_rotary(&mut written, rotary, "rope_theta");
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("model.");
    table.same("model.embed_tokens.weight", "embedding.weight");
    for layer in 0..config.n_layers() {
        let theirs = format!("model.layers.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let norms = [("q_layernorm", "query_norm"), ("k_layernorm", "key_norm")];
        table.norms(&format!("{theirs}.self_attn"), &attention, &norms);
        for (name, path) in [
            ("self_attn.q_proj", format!("{attention}.query")),
            ("self_attn.k_proj", format!("{attention}.key")),
            ("self_attn.v_proj", format!("{attention}.value")),
            ("self_attn.dense", format!("{attention}.output")),
            ("mlp.fc1", format!("{mlp}.up")),
            ("mlp.fc2", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    table.norm("model.final_layernorm", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec!["rotary_emb.inv_freq"];
    table.within("model.")
}
