//! T5's decoder stack without an encoder (Raffel et al. 2020): RMS norm, one bucketed position bias for all
//! layers, attention scores without 1/√d_head. The head of v1.0 is tied and scaled by d^−½; that of v1.1 is
//! neither.

use super::{HfShape, block, rms_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig, GatedConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::relative_bias::RelativeBiasConfig;
use crate::stack::StackConfig;

/// A T5 decoder, from a config of `model_type` t5.
pub(super) fn read(hf: &HfConfig) -> HfShape {
    // Keys of models with two stacks.
    for key in ["num_decoder_layers", "scale_decoder_outputs"] {
        hf.get(key);
    }
    let tied = hf.flag("tie_word_embeddings", true);
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_layers"], 6)),
        tie_embeddings: tied,
        head_scale: tied,
        stack: StackConfig {
            d_model: hf.count(&["d_model"], 512),
            norm: rms_norm(hf.real("layer_norm_epsilon", 1e-6)),
            position: PositionConfig::RelativeBias(RelativeBiasConfig {
                buckets: hf.count(&["relative_attention_num_buckets"], 32),
                max_distance: hf.count(&["relative_attention_max_distance"], 128),
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_heads"], 8),
                d_head: Some(hf.count(&["d_kv"], 64)),
                bias: false,
                scale: Some(1.0),
                ..MultiHeadConfig::default()
            }),
            feed_forward: feed_forward(hf, false),
            dropout: hf.real("dropout_rate", 0.1),
            dropout_feed_forward: Some(hf.real("dropout_rate", 0.1)),
            dropout_output: Some(hf.real("dropout_rate", 0.1)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 32128);
    HfShape::language_model(config, vocab_size, hf.count(&["n_positions"], 512))
}

/// The feed-forward layers of a T5; those of mT5 are gated by default.
pub(super) fn feed_forward(hf: &HfConfig, multilingual: bool) -> FeedForwardConfig {
    let usual = if multilingual { "gated-gelu" } else { "relu" };
    let projection = hf.word("feed_forward_proj", usual);
    let (gated, name) = match projection.strip_prefix("gated-") {
        // HF reads "gated-gelu" as the tanh approximation of GELU.
        Some("gelu") => (true, "gelu_new"),
        Some(name) => (true, name),
        None => (false, projection),
    };
    let activation = hf.activation_named("feed_forward_proj", name);
    // Both keys follow from the projection, but HF's class uses their values in the file.
    hf.only("is_gated_act", gated);
    hf.only("dense_act_fn", name);
    let d_ff = Some(hf.count(&["d_ff"], if multilingual { 1024 } else { 2048 }));
    let bias = false;
    if gated {
        FeedForwardConfig::Gated(GatedConfig {
            d_ff,
            activation,
            bias,
            ..GatedConfig::default()
        })
    } else {
        FeedForwardConfig::Dense(DenseConfig {
            d_ff,
            activation,
            bias,
            ..DenseConfig::default()
        })
    }
}

/// The table of a T5 decoder.
pub(super) fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("");
    table.same("embed_tokens.weight", "embedding.weight");
    table.same(
        "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "position.table",
    );
    for layer in 0..config.n_layers() {
        // Layer 1 of a decoder's block is its cross-attention.
        let attention = format!("block.{layer}.layer.0");
        let mlp = format!("block.{layer}.layer.2");
        let names = match &config.stack.feed_forward {
            FeedForwardConfig::Dense(_) => [("wi", "up"), ("wo", "down")].as_slice(),
            FeedForwardConfig::Gated(_) => &[("wi_0", "gate"), ("wi_1", "up"), ("wo", "down")],
            // T5 has none of these layers; models with them have other names.
            FeedForwardConfig::Moe(_)
            | FeedForwardConfig::Rwkv(_)
            | FeedForwardConfig::Rwkv7(_) => &[],
        };
        let ours = block(layer);
        table.norm(&format!("{attention}.layer_norm"), &ours.attention_norm);
        table.norm(&format!("{mlp}.layer_norm"), &ours.feed_forward_norm);
        for (name, part) in [
            ("q", "query"),
            ("k", "key"),
            ("v", "value"),
            ("o", "output"),
        ] {
            let path = format!("{}.{part}", ours.attention);
            let name = format!("{attention}.SelfAttention.{name}");
            table.linear(&name, &path, Orientation::OutIn);
        }
        for (name, part) in names {
            let path = format!("{}.{part}", ours.feed_forward);
            let name = format!("{mlp}.DenseReluDense.{name}");
            table.linear(&name, &path, Orientation::OutIn);
        }
    }
    table.norm("final_layer_norm", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
