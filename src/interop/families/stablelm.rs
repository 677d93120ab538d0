//! StableLM 2 and StableLM 3B (Bellagente et al. 2024, arXiv:2402.17834): LLaMA with layer norms and rotary positions on a part
//! of each head; its layers are sequential, or parallel after one norm. Separate norms of each head's queries and keys are
//! refused.

use super::llama::table;
use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, layer_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{FeedForwardConfig, GatedConfig};
use crate::nn::position::PositionConfig;
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "stablelm",
    summary: "StableLM: layer norms, partial rotary positions, gated feed-forward, sequential or parallel layers",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // The class has a gain for each head, ours one for all heads.
    hf.only("qk_layernorm", false);
    // The class applies this dropout to feed-forward outputs, but not to those of attention.
    hf.only("hidden_dropout", 0.0);
    let context = hf.count(&["max_position_embeddings"], 4096);
    let keys = RotaryKeys {
        fraction: Some(("partial_rotary_factor", 0.25)),
        ..WHOLE_HEADS
    };
    let parallel = hf.flag("use_parallel_residual", false);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 32)),
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 2560),
            norm: layer_norm(hf.real("layer_norm_eps", 1e-5)),
            norm_placement: match parallel {
                true => NormPlacement::Parallel,
                false => NormPlacement::Pre,
            },
            shared_parallel_norm: parallel.then_some(true),
            position: PositionConfig::Rotary(hf.rotary(keys, context)),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], 32),
                n_kv_heads: Some(hf.count(&["num_key_value_heads"], 32)),
                bias: hf.flag("use_qkv_bias", false),
                out_bias: Some(false),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Gated(GatedConfig {
                d_ff: Some(hf.count(&["intermediate_size"], 6912)),
                activation: hf.activation("hidden_act", "silu"),
                bias: false,
                ..GatedConfig::default()
            }),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 50304);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let rotary = rotary(&config.stack)?;
    let mut written = json!({
        "architectures": ["StableLmForCausalLM"],
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
        "use_parallel_residual": config.stack.norm_placement == NormPlacement::Parallel,
        "use_qkv_bias": plain.heads.bias,
        "qk_layernorm": false,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": plain.dropout.attention,
    });
    add_rotary(&mut written, rotary, "rope_theta");
    Some(written)
}
