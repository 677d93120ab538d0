//! T5 and mT5 (Raffel et al. 2020; Xue et al. 2021): an encoder-decoder with RMS norm, one bucketed position bias per
//! stack and attention scores without 1/√d_head. The head of v1.0 is tied and scaled by d^−½; that of v1.1 and mT5 is
//! neither.
//!
//! A decoder stack by itself (`is_decoder`) is read as a decoder.

use super::stack_summary::summarize;
use super::{Family, HfShape, rms_norm, t5_stack};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::{EncoderDecoderConfig, ModelConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::relative_bias::RelativeBiasConfig;
use crate::stack::StackConfig;
use crate::task::{TaskConfig, TranslationConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "t5",
    summary: "T5: encoder-decoder, or its decoder stack alone; RMS norm, bucketed relative bias",
    read,
    write,
    table,
    declined: None,
};

/// mT5's entry in the table of architectures.
pub const MT5: Family = Family {
    model_type: "mt5",
    summary: "mT5: T5 v1.1 with a multilingual vocabulary",
    read,
    write: write_mt5,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    if hf.flag("is_decoder", false) && !hf.flag("is_encoder_decoder", true) {
        return t5_stack::read(hf);
    }
    let multilingual = hf.word("model_type", "t5") == "mt5";
    if let Some(class) = hf
        .architecture()
        .filter(|c| !c.ends_with("ForConditionalGeneration"))
    {
        hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; T5ForConditionalGeneration can"
        ));
    }
    let layers = hf.count(&["num_layers"], if multilingual { 8 } else { 6 });
    // HF's class ties the head unless the file has a different one, whatever config.json says.
    let asked = hf.flag("tie_word_embeddings", !multilingual);
    let tied = match hf.has_weights() {
        true => !hf.tensors_differ("lm_head.weight", "shared.weight"),
        false => asked,
    };
    if asked && !tied {
        hf.warn(
            "the weights have separate values for `lm_head.weight`, which config.json ties (`tie_word_embeddings`): they are \
             imported separately from `shared.weight`, as transformers 5 loads them",
        );
    }
    let scaled = !multilingual && hf.flag_or_off("scale_decoder_outputs", asked);
    let config = EncoderDecoderConfig {
        n_encoder_layers: Some(layers),
        n_decoder_layers: Some(hf.count(&["num_decoder_layers"], layers)),
        share_embeddings: true,
        tie_embeddings: tied,
        head_scale: scaled,
        stack: StackConfig {
            d_model: hf.count(&["d_model"], 512),
            norm: rms_norm(hf.real("layer_norm_epsilon", 1e-6)),
            position: PositionConfig::RelativeBias(RelativeBiasConfig {
                buckets: hf.count(&["relative_attention_num_buckets"], 32),
                max_distance: hf.count(&["relative_attention_max_distance"], 128),
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_heads"], if multilingual { 6 } else { 8 }),
                d_head: Some(hf.count(&["d_kv"], 64)),
                bias: false,
                scale: Some(1.0),
                ..MultiHeadConfig::default()
            }),
            feed_forward: t5_stack::feed_forward(hf, multilingual),
            dropout: hf.real("dropout_rate", 0.1),
            dropout_feed_forward: Some(hf.real("dropout_rate", 0.1)),
            dropout_output: Some(hf.real("dropout_rate", 0.1)),
            ..StackConfig::default()
        },
        ..EncoderDecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], if multilingual { 250_112 } else { 32128 });
    HfShape {
        model: ModelConfig::EncoderDecoder(config),
        task: TaskConfig::Translation(TranslationConfig::default()),
        // Relative positions have no limit; the released models were trained on 512 tokens.
        shape: Shape::of_text(hf.count(&["n_positions"], 512), vocab_size),
    }
}

fn write(of: &HfShape) -> Option<Value> {
    write_as(of, "t5")
}

fn write_mt5(of: &HfShape) -> Option<Value> {
    write_as(of, "mt5")
}

fn write_as(of: &HfShape, model_type: &str) -> Option<Value> {
    let network = of.model.transformer()?;
    let [reads, writes] = network.stacks;
    let plain = summarize(network.stack, &reads?)?;
    let PositionConfig::RelativeBias(bias) = &network.stack.position else {
        return None;
    };
    let (tied, scaled, stacks) = match &of.model {
        ModelConfig::EncoderDecoder(c) => (c.tie_embeddings, c.head_scale, 2),
        ModelConfig::Decoder(c) => (c.tie_embeddings, c.head_scale, 1),
        _ => return None,
    };
    let class = match (stacks, model_type) {
        (1, _) => "T5ForCausalLM",
        (_, "mt5") => "MT5ForConditionalGeneration",
        _ => "T5ForConditionalGeneration",
    };
    let projection = match (plain.gated, plain.activation) {
        (true, "gelu_new") => "gated-gelu".into(),
        (true, name) => format!("gated-{name}"),
        (false, name) => name.to_string(),
    };
    let mut written = json!({
        "architectures": [class],
        "vocab_size": of.shape.vocab_size,
        "n_positions": of.shape.context,
        "d_model": network.stack.d_model,
        "d_kv": plain.d_head,
        "d_ff": plain.d_ff,
        "num_layers": plain.layers,
        "num_heads": plain.heads.n_heads,
        "relative_attention_num_buckets": bias.buckets,
        "relative_attention_max_distance": bias.max_distance,
        "layer_norm_epsilon": plain.eps,
        "feed_forward_proj": projection,
        "tie_word_embeddings": tied,
        "dropout_rate": plain.dropout.residual,
        "is_encoder_decoder": stacks == 2,
    });
    if model_type == "t5" && stacks == 2 {
        written["scale_decoder_outputs"] = json!(scaled);
    }
    match writes {
        Some(writes) => written["num_decoder_layers"] = json!(writes.blocks()),
        None => written["is_decoder"] = json!(true),
    }
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let ModelConfig::EncoderDecoder(config) = &of.model else {
        return t5_stack::table(of);
    };
    let mut table = Table::new("");
    table.same("shared.weight", "model.embedding.weight");
    let inner = match &config.stack.feed_forward {
        FeedForwardConfig::Gated(_) => GATED,
        FeedForwardConfig::Dense(_)
        | FeedForwardConfig::Moe(_)
        | FeedForwardConfig::Rwkv(_)
        | FeedForwardConfig::Rwkv7(_) => DENSE,
    };
    let cross = Some(("EncDecAttention", "cross.attention", "cross.residual"));
    for (side, depth, cross) in [
        ("encoder", config.encoder_depth(), None),
        ("decoder", config.decoder_depth(), cross),
    ] {
        let bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight";
        let ours = format!("model.{side}");
        table.same(format!("{side}.{bias}"), format!("{ours}.position.table"));
        let norm = format!("{ours}.stack.final_norm");
        table.norm(&format!("{side}.final_layer_norm"), &norm);
        let own = ("SelfAttention", "attention", "attention_residual");
        for block in 0..depth.blocks() {
            let ours = format!("{ours}.stack.blocks.{block}");
            let layers = format!("{side}.block.{block}.layer");
            let attentions = [Some(own), cross].into_iter().flatten();
            let mut number = 0;
            for (name, path, residual) in attentions {
                let theirs = format!("{layers}.{number}");
                let attention = format!("{theirs}.{name}");
                table.linears(&attention, &format!("{ours}.{path}"), ATTENTION);
                let norm = format!("{ours}.{residual}.norm");
                table.norm(&format!("{theirs}.layer_norm"), &norm);
                number += 1;
            }
            let theirs = format!("{layers}.{number}");
            let mlp = format!("{theirs}.DenseReluDense");
            table.linears(&mlp, &format!("{ours}.feed_forward"), inner);
            let norm = format!("{ours}.feed_forward_residual.norm");
            table.norm(&format!("{theirs}.layer_norm"), &norm);
        }
    }
    table.linear("lm_head", "model.head", Orientation::OutIn);
    table.ignored = vec!["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table
}

const ATTENTION: &[(&str, &str)] = &[
    ("q", "query"),
    ("k", "key"),
    ("v", "value"),
    ("o", "output"),
];
/// The matrices of a feed-forward layer, without and with a gate.
const DENSE: &[(&str, &str)] = &[("wi", "up"), ("wo", "down")];
const GATED: &[(&str, &str)] = &[("wi_0", "gate"), ("wi_1", "up"), ("wo", "down")];
