//! StarCoder2 (Lozhkov et al. 2024, arXiv:2402.19173): rotary positions, grouped queries and a sliding window like Mistral, but
//! with layer norms, biases and feed-forward layers without a gate.

use super::llama;
use super::mistral::windowed;
use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, layer_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::WHOLE_HEADS;
use crate::interop::rename::Table;
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::stack::StackConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "starcoder2",
    summary: "StarCoder2: layer norms, rotary positions, grouped queries, in early releases with a sliding window",
    read,
    write,
    table,
    declined: None,
};

/// Keys of released files that the class does not read: it uses `hidden_act`, and always computes the attention softmax in
/// 32 bits.
const UNREAD: [&str; 3] = [
    "activation_function",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
];

fn read(hf: &HfConfig) -> HfShape {
    for key in UNREAD {
        hf.get(key);
    }
    hf.only("mlp_type", "default");
    hf.only("norm_type", "layer_norm");
    hf.only("scale_attn_weights", true);
    let eps = hf.real("norm_epsilon", 1e-5);
    for other in ["layer_norm_epsilon", "rms_norm_eps"] {
        hf.only(other, eps);
    }
    let context = hf.count(&["max_position_embeddings"], 4096);
    let bias = hf.flag("use_bias", true);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 30)),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 3072),
            norm: layer_norm(eps),
            position: PositionConfig::Rotary(hf.rotary(WHOLE_HEADS, context)),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], 24),
                n_kv_heads: Some(hf.count(&["num_key_value_heads"], 2)),
                d_head: hf.count_if_any(&["head_dim"]),
                bias,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["intermediate_size"], 12288)),
                activation: hf.activation("hidden_act", "gelu_pytorch_tanh"),
                bias,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(hf.real("embedding_dropout", 0.0)),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("residual_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 49152);
    HfShape::language_model(windowed(hf, config), vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let mut written = json!({
        "architectures": ["Starcoder2ForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "num_key_value_heads": plain.heads.n_kv_heads(),
        "head_dim": plain.d_head,
        "intermediate_size": plain.d_ff,
        "hidden_act": match plain.activation {
            "gelu_new" => "gelu_pytorch_tanh",
            other => other,
        },
        "norm_epsilon": plain.eps,
        "use_bias": plain.bias,
        "sliding_window": llama::window(of),
        "tie_word_embeddings": config.tie_embeddings,
        "embedding_dropout": plain.dropout.embedding,
        "attention_dropout": plain.dropout.attention,
        "residual_dropout": plain.dropout.residual,
    });
    add_rotary(&mut written, rotary(&config.stack)?, "rope_theta");
    Some(written)
}

/// LLaMA's table, except for the feed-forward layers.
fn table(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    for name in table.rules.iter_mut().flat_map(|rule| &mut rule.theirs) {
        for (old, new) in [
            (".mlp.up_proj.", ".mlp.c_fc."),
            (".mlp.down_proj.", ".mlp.c_proj."),
        ] {
            *name = name.replace(old, new);
        }
    }
    table
}
