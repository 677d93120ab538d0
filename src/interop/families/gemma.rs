//! Gemma (Gemma Team 2024): LLaMA with zero-centred norms, embeddings scaled by √d_model, and gated layers with GELU.
//! Also the parts that Gemma 2 and 3 share with it.

use super::llama;
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::WHOLE_HEADS;
use crate::interop::rename::Table;
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, FeedForwardConfig, GatedConfig};
use crate::nn::position::PositionConfig;
use crate::stack::StackConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gemma",
    summary: "Gemma: zero-centred RMS norms, scaled embeddings, GELU in gated layers",
    read,
    write,
    table: llama::table,
    declined: None,
};

/// Default values of a class.
pub(super) struct Defaults {
    pub vocab: usize,
    pub width: usize,
    pub layers: usize,
    pub heads: [usize; 2],
    pub d_ff: usize,
    pub context: usize,
}

const DEFAULTS: Defaults = Defaults {
    vocab: 256_000,
    width: 3072,
    layers: 28,
    heads: [16, 16],
    d_ff: 24_576,
    context: 8192,
};

fn read(hf: &HfConfig) -> HfShape {
    // The class reads `hidden_act` = "gelu" of the first files as the tanh approximation of GELU.
    let activation = match hf.word("hidden_act", "gelu_pytorch_tanh") {
        "gelu" => Activation::GeluTanh,
        name => hf.activation_named("hidden_act", name),
    };
    // Files between the first ones and version 5 also have this key; the class ignores it.
    hf.get("hidden_activation");
    let mut config = config(hf, &DEFAULTS, activation);
    let context = hf.count(&["max_position_embeddings"], DEFAULTS.context);
    config.stack.position = PositionConfig::Rotary(hf.rotary(WHOLE_HEADS, context));
    shape(hf, &DEFAULTS, config)
}

/// A model with this config.
pub(super) fn shape(hf: &HfConfig, usual: &Defaults, config: DecoderConfig) -> HfShape {
    hf.only("use_bidirectional_attention", false);
    let context = hf.count(&["max_position_embeddings"], usual.context);
    HfShape::language_model(config, hf.count(&["vocab_size"], usual.vocab), context)
}

/// The config without positions.
pub(super) fn config(hf: &HfConfig, usual: &Defaults, activation: Activation) -> DecoderConfig {
    let [heads, kv_heads] = usual.heads;
    DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], usual.layers)),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        embedding_scale: true,
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], usual.width),
            norm: super::zero_centered(hf.real("rms_norm_eps", 1e-6)),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], heads),
                n_kv_heads: Some(hf.count(&["num_key_value_heads"], kv_heads)),
                d_head: Some(hf.count(&["head_dim"], 256)),
                bias: hf.flag("attention_bias", false),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Gated(GatedConfig {
                d_ff: Some(hf.count(&["intermediate_size"], usual.d_ff)),
                activation,
                bias: false,
                ..GatedConfig::default()
            }),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    written(of, "GemmaForCausalLM", "hidden_act")
}

/// LLaMA's keys, with the activation under the name that Gemma's files use.
pub(super) fn written(of: &HfShape, class: &str, activation: &str) -> Option<Value> {
    let mut written = llama::write_as(of, class)?;
    let keys = written.as_object_mut()?;
    keys.shift_remove("mlp_bias");
    let name = match keys.shift_remove("hidden_act")?.as_str()? {
        "gelu_new" => json!("gelu_pytorch_tanh"),
        other => json!(other),
    };
    written[activation] = name;
    Some(written)
}

/// The table of Gemma 2 and 3: LLaMA's, with a norm before and one after each layer.
pub(super) fn sandwiched(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    let before = ("post_attention_layernorm", "pre_feedforward_layernorm");
    for name in table.rules.iter_mut().flat_map(|rule| &mut rule.theirs) {
        *name = name.replace(before.0, before.1);
    }
    let mut behind = Table::default();
    for layer in 0..of.decoder().n_layers() {
        let theirs = format!("model.layers.{layer}");
        let norms = [
            ("post_attention_layernorm", "attention_residual.after"),
            ("post_feedforward_layernorm", "feed_forward_residual.after"),
        ];
        behind.norms(&theirs, &format!("stack.blocks.{layer}"), &norms);
    }
    table.rules.extend(behind.within("model.").rules);
    table
}
