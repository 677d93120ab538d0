//! OPT (Zhang et al. 2022, arXiv:2205.01068): GPT-2's blocks with ReLU and separate queries, keys and values. Norms come before
//! the layers, or after them (OPT-350M, which is refused because its embeddings are narrower than its blocks).

use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, block};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::norm::{LayerNormConfig, NormConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "opt",
    summary: "OPT: pre-norm or post-norm, learned positions, ReLU",
    read,
    write,
    table,
    declined: None,
};

/// Rows of the position table before the first position.
const FIRST: usize = 2;

/// The epsilon of norms, which the class fixes.
const EPS: f64 = 1e-5;

fn read(hf: &HfConfig) -> HfShape {
    let d_model = hf.count(&["hidden_size"], 768);
    hf.only("word_embed_proj_dim", d_model);
    // Keys of Galactica's files: the class has no other embeddings.
    hf.only("learned_embeddings", true);
    hf.only("scale_embeddings", false);
    let context = hf.count(&["max_position_embeddings"], 2048);
    let before = hf.flag("do_layer_norm_before", true);
    // Without effect if norms come after the layers.
    let removed = hf.flag("_remove_final_layer_norm", false);
    let learned = hf.flag("layer_norm_elementwise_affine", true);
    let bias = hf.flag("enable_bias", true);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 12)),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model,
            norm: NormConfig::Layer(LayerNormConfig {
                eps: EPS,
                bias: learned,
                gain: learned,
            }),
            norm_placement: match before {
                true => NormPlacement::Pre,
                false => NormPlacement::Post,
            },
            final_norm: (before && removed).then_some(false),
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context.saturating_add(FIRST)),
                first: FIRST,
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], 12),
                bias,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["ffn_dim"], 3072)),
                activation: hf.activation("activation_function", "relu"),
                bias,
                ..DenseConfig::default()
            }),
            dropout_embedding: Some(0.0),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("dropout", 0.1)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 50272);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let stack = &config.stack;
    let plain = summarize(stack, &config.depth())?;
    let NormConfig::Layer(norm) = &stack.norm else {
        return None;
    };
    let before = stack.norm_placement == NormPlacement::Pre;
    Some(json!({
        "architectures": ["OPTForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": positions(stack, of.shape.context),
        "hidden_size": stack.d_model,
        "word_embed_proj_dim": stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "ffn_dim": plain.d_ff,
        "activation_function": plain.activation,
        "do_layer_norm_before": before,
        "_remove_final_layer_norm": before && !stack.has_final_norm(),
        "enable_bias": plain.heads.bias,
        "layer_norm_elementwise_affine": norm.gain,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": plain.dropout.attention,
        "dropout": plain.dropout.residual,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("model.");
    table.same("model.decoder.embed_tokens.weight", "embedding.weight");
    table.same("model.decoder.embed_positions.weight", "position.table");
    for layer in 0..config.n_layers() {
        let theirs = format!("model.decoder.layers.{layer}");
        let ours = block(layer);
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        let norm = format!("{theirs}.self_attn_layer_norm");
        table.norm(&norm, &ours.attention_norm);
        let norm = format!("{theirs}.final_layer_norm");
        table.norm(&norm, &ours.feed_forward_norm);
        for (name, path) in [
            ("self_attn.q_proj", format!("{attention}.query")),
            ("self_attn.k_proj", format!("{attention}.key")),
            ("self_attn.v_proj", format!("{attention}.value")),
            ("self_attn.out_proj", format!("{attention}.output")),
            ("fc1", format!("{mlp}.up")),
            ("fc2", format!("{mlp}.down")),
        ] {
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    table.norm("model.decoder.final_layer_norm", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec!["decoder.version"];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
