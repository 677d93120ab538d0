//! Parts common to both versions of DeBERTa: keys of config.json, the heads of their classes, and tensor names.
//!
//! Released files have the positions of the enhanced mask decoder as `position_embeddings`, and the head that was trained with
//! it as `lm_predictions`. The transformers class has no such decoder; folders exported here have the key
//! `mask_decoder_steps`.

use super::stack_summary::summarize;
use super::{HfShape, bert, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::{EncoderConfig, MaskDecoderConfig, ModelConfig};
use crate::nn::position::disentangled::{DisentangledConfig, Term};
use crate::task::{MaskedLmConfig, TaskConfig};
use serde_json::{Value, json};

/// Number of steps of the mask decoder in released files.
const STEPS: usize = 2;
/// HF's name of the decoder's position table.
const PLACES: &str = "deberta.embeddings.position_embeddings.weight";
/// Our key for the number of the decoder's steps.
const DECODER: &str = "mask_decoder_steps";

/// Default number of layers, width, number of heads, inner width and vocabulary size of a class.
pub(super) type DefaultSizes = [usize; 5];

/// The encoder of both versions, without positions.
pub(super) fn config(hf: &HfConfig, usual: DefaultSizes) -> EncoderConfig {
    let [layers, d_model, n_heads, d_ff, _] = usual;
    // The classes ignore this key.
    hf.only("position_embedding_type", "absolute");
    let d_model = hf.count(&["hidden_size"], d_model);
    if hf.count(&["embedding_size"], d_model) != d_model {
        hf.fault(format!(
            "`embedding_size` must be `hidden_size` = {d_model}: the class normalises narrow embeddings after their projection, \
             and this model before it"
        ));
    }
    if !hf.flag("relative_attention", false) {
        hf.fault("`relative_attention` must be true: attention depends on distances");
    }
    if hf.flag("position_biased_input", true) {
        hf.fault(
            "`position_biased_input` must be false: absolute positions together with distances are not supported here",
        );
    }
    let usual = bert::Defaults {
        eps: 1e-7,
        ..bert::Defaults::of([d_model, n_heads, d_ff])
    };
    EncoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], layers)),
        segments: segments(hf),
        ..bert::post_norm(hf, &usual)
    }
}

/// Reads `type_vocab_size`, which may be 0.
fn segments(hf: &HfConfig) -> usize {
    match hf.get("type_vocab_size").map(Value::as_u64) {
        None | Some(Some(0)) => 0,
        Some(_) => hf.count(&["type_vocab_size"], 1),
    }
}

/// Distances up to `max_relative_positions`, or to the maximum input length, with projections in each layer.
pub(super) fn positions(hf: &HfConfig) -> DisentangledConfig {
    let longest = hf.count(&["max_position_embeddings"], 512);
    let furthest = hf.typed("max_relative_positions", "a whole number", Value::as_i64);
    DisentangledConfig {
        max_distance: match furthest {
            Some(1..) => hf.count(&["max_relative_positions"], longest),
            _ => longest,
        },
        terms: terms(hf),
        ..DisentangledConfig::default()
    }
}

/// Reads `pos_att_type`: names between bars, or a list of them.
fn terms(hf: &HfConfig) -> Vec<Term> {
    let names: Vec<String> = match hf.get("pos_att_type") {
        Some(Value::String(text)) => text.split('|').map(|name| name.trim().into()).collect(),
        Some(Value::Array(all)) if all.iter().all(Value::is_string) => {
            let names = all.iter().filter_map(Value::as_str);
            names.map(String::from).collect()
        }
        Some(other) => {
            hf.fault(format!(
                "`pos_att_type` = {other} must be a string, for example \"c2p|p2c\", or a list of such names"
            ));
            return Vec::new();
        }
        None => Vec::new(),
    };
    let mut found = Vec::new();
    for name in &names {
        match name.to_lowercase().as_str() {
            "c2p" => found.push(Term::C2p),
            "p2c" => found.push(Term::P2c),
            other => hf.fault(format!(
                "`pos_att_type` has \"{other}\"; its terms are \"c2p\" and \"p2c\""
            )),
        }
    }
    if names.is_empty() {
        hf.fault("`pos_att_type` must name \"c2p\", \"p2c\" or both");
    }
    found.sort_by_key(|term| *term == Term::P2c);
    let given = found.len();
    found.dedup();
    if let (Some(value), true) = (hf.get("pos_att_type"), found.len() < given) {
        hf.fault(format!(
            "`pos_att_type` = {value} names a term twice, which changes the scaling of scores in the class of the first \
             version; name each term once"
        ));
    }
    found
}

/// The encoder with the heads of its class; `name` is the prefix of the family's classes.
pub(super) fn shape(
    hf: &HfConfig,
    name: &str,
    mut config: EncoderConfig,
    vocab_size: usize,
) -> HfShape {
    let context = hf.count(&["max_position_embeddings"], 512);
    let mut shape = Shape::of_text(context, hf.count(&["vocab_size"], vocab_size));
    // Keys of a classifier's pooler, which other classes also write.
    hf.only("pooler_hidden_size", config.stack.d_model);
    hf.get("pooler_dropout");
    let pooler = hf.word("pooler_hidden_act", "gelu");
    let dropout = hf.real("cls_dropout", config.stack.dropout);
    hf.get("legacy");
    let decoder = hf.count_if_any(&[DECODER]);
    let masked = |config: &mut EncoderConfig| {
        let released = hf.has_weights() && hf.has_tensor(PLACES);
        let steps = decoder.or(released.then_some(STEPS));
        config.mask_decoder = steps.map(|steps| MaskDecoderConfig {
            steps,
            max_len: Some(context),
        });
        if steps.is_some() {
            hf.warn(format!(
                "{name}ForMaskedLM of transformers has no enhanced mask decoder: it predicts tokens from the last hidden \
                 states, and ignores the decoder's positions (`{PLACES}`)"
            ));
        }
        TaskConfig::MaskedLm(MaskedLmConfig::default())
    };
    // Released files name no class.
    let class = hf
        .architecture()
        .map(|class| text_heads::ending_of(class, name));
    let ending = class.unwrap_or_default();
    let dropout = match ending {
        text_heads::TOKEN_ENDING => config.stack.dropout,
        _ => dropout,
    };
    let headed = text_heads::task(hf, ending, dropout, &mut config, &mut shape);
    if headed.as_ref().is_some_and(text_heads::is_sequence_task) && pooler != "tanh" {
        let activation = hf.activation_named("pooler_hidden_act", pooler);
        config.pooler_activation = Some(activation);
    }
    let task = match (class, headed) {
        (_, Some(task)) => task,
        (None | Some("ForMaskedLM"), None) => masked(&mut config),
        (Some(_), None) => {
            let class = hf.architecture().unwrap_or_default();
            hf.fault(format!(
                "`architectures` = [\"{class}\"] has no head that can be imported; the classes with one are {name}ForMaskedLM, \
                 {name}ForSequenceClassification, {name}ForTokenClassification and {name}ForQuestionAnswering"
            ));
            masked(&mut config)
        }
    };
    HfShape {
        model: ModelConfig::Encoder(config),
        task,
        shape,
    }
}

/// The keys common to both versions.
pub(super) fn write_as(of: &HfShape, name: &str) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let class = match (&of.task, text_heads::ending(&of.task)) {
        (_, Some(ending)) => ending,
        (TaskConfig::MaskedLm(_), None) => "ForMaskedLM",
        (_, None) => return None,
    };
    let decoder = config.mask_decoder.as_ref();
    let decoder = decoder.filter(|_| class == "ForMaskedLM");
    let mut written = json!({
        "architectures": [format!("{name}{class}")],
        "vocab_size": of.shape.vocab_size,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "type_vocab_size": config.segments,
        "layer_norm_eps": plain.eps,
        "max_position_embeddings": decoder.and_then(|d| d.max_len).unwrap_or(of.shape.context),
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_dropout_prob": plain.dropout.residual,
        "attention_probs_dropout_prob": plain.dropout.attention,
        "relative_attention": true,
        "position_biased_input": false,
        "legacy": true,
        "pooler_hidden_size": config.stack.d_model,
        "pooler_hidden_act": config.pooler_activation.map_or("tanh", super::stack_summary::activation_name),
    });
    if class == "ForMaskedLM" {
        written["pooler_hidden_act"] = json!("gelu");
    }
    if let Some(decoder) = decoder {
        written[DECODER] = json!(decoder.steps);
    }
    text_heads::write(&mut written, of);
    Some(written)
}

/// Adds the tensors whose names both versions share.
pub(super) fn add_rest(table: &mut Table, of: &HfShape) {
    let config = of.encoder();
    let embeddings = "deberta.embeddings";
    for (name, path) in [
        ("word_embeddings", "model.embedding.weight"),
        ("token_type_embeddings", "model.segments"),
        ("position_embeddings", "mask_decoder.table"),
    ] {
        table.same(format!("{embeddings}.{name}.weight"), path);
    }
    table.norm(&format!("{embeddings}.LayerNorm"), "model.embedding_norm");
    table.same(
        "deberta.encoder.rel_embeddings.weight",
        "model.position.table",
    );
    for layer in 0..config.n_layers() {
        let theirs = format!("deberta.encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        let linears = [
            ("attention.output.dense", "attention.output"),
            ("intermediate.dense", "feed_forward.up"),
            ("output.dense", "feed_forward.down"),
        ];
        let norms = [
            ("attention.output.LayerNorm", "attention_residual.norm"),
            ("output.LayerNorm", "feed_forward_residual.norm"),
        ];
        table.linears(&theirs, &ours, &linears);
        table.norms(&theirs, &ours, &norms);
    }
    table.ignored = vec![
        "embeddings.position_ids",
        "embeddings.position_embeddings.weight",
    ];
    if text_heads::add(table, &of.task, ["pooler.dense", "classifier"]) {
        return;
    }
    bert::add_predictions(table, config.tie_embeddings);
    if config.tie_embeddings {
        add_released_head(table);
    }
}

/// The masked LM head as it is named in released files, and by transformers with `legacy` = false. Files of version 3 also
/// have the head for replaced tokens.
fn add_released_head(table: &mut Table) {
    let head = "lm_predictions.lm_head";
    for (name, path) in [("dense", "head.transform"), ("LayerNorm", "head.norm")] {
        let [weight, bias] = match name {
            "dense" => ["weight", "bias"],
            _ => ["gamma", "beta"],
        };
        table.alias(format!("{head}.{name}.weight"), format!("{path}.{weight}"));
        table.alias(format!("{head}.{name}.bias"), format!("{path}.{bias}"));
    }
    table.alias(format!("{head}.bias"), "head.bias".into());
    table.ignored.extend([
        "mask_predictions.dense.weight",
        "mask_predictions.dense.bias",
        "mask_predictions.LayerNorm.weight",
        "mask_predictions.LayerNorm.bias",
        "mask_predictions.classifier.weight",
        "mask_predictions.classifier.bias",
    ]);
}
