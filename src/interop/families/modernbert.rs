//! ModernBERT (Warner et al. 2024, arXiv:2412.13663): a pre-norm encoder without biases, with gated feed-forward layers and
//! rotary positions with two bases. Every third layer has full attention, the others a window on both sides.

use super::stack_summary::{StackSummary, activation_name, add_rotary, rotary, summarize};
use super::{Family, HfShape, bert, layer_types, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::hf_rotary::fits_per_layer_kind;
use crate::interop::rename::{Fused, Orientation, Table};
use crate::model::encoder::pooler::PoolerInput;
use crate::model::{EncoderConfig, ModelConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{FeedForwardConfig, GatedConfig};
use crate::nn::norm::{LayerNormConfig, NormConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::RotaryConfig;
use crate::stack::{NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "modernbert",
    summary: "ModernBERT: pre-norm encoder, sliding windows in two of three layers, rotary positions with two bases",
    read,
    write,
    table,
    declined: None,
};

/// Default rotary bases of layers with full attention, and of those with a window.
const THETA: f64 = 160_000.0;
const LOCAL_THETA: f64 = 10_000.0;

/// The objects in `rope_parameters` for layers with full attention, and for those with a window.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

fn read(hf: &HfConfig) -> HfShape {
    let mut config = config(hf);
    let context = hf.count(&["max_position_embeddings"], 8192);
    let every = hf.count(&["global_attn_every_n_layers"], 3);
    let usual = |layer: usize| !layer.is_multiple_of(every);
    let sliding = layer_types::sliding(hf, config.n_layers(), usual);
    let [global, local] = positions(hf, context).map(PositionConfig::Rotary);
    // `local_attention` counts the neighbours on both sides; ours counts those on one side and the query itself.
    let window = hf.count(&["local_attention"], 128) / 2 + 1;
    let alike = global == local || sliding.iter().all(|sliding| *sliding);
    let own = (!alike).then(|| local.clone());
    config.stack.position = match sliding.contains(&false) {
        true => global,
        false => local,
    };
    config.layers = layer_types::windowed_groups(&mut config.stack, &sliding, window, own);
    let vocab_size = hf.count(&["vocab_size"], 50368);
    let of_text = Shape::of_text(context, vocab_size);
    let mut shape = bert::shape(hf, "ModernBert", config, of_text);
    heads(hf, &mut shape);
    shape
}

/// Reads the network without its windows and positions.
fn config(hf: &HfConfig) -> EncoderConfig {
    let dropout = hf.real("attention_dropout", 0.0);
    if dropout > 0.0 {
        hf.warn(format!(
            "`attention_dropout` = {dropout} applies only to attention weights here; in training, the class also drops the outputs of attention"
        ));
    }
    // Keys of the first version's files that the class ignores.
    hf.get("layer_norm_eps");
    hf.only("position_embedding_type", "absolute");
    hf.only("is_decoder", false);
    hf.only("add_cross_attention", false);
    EncoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 22)),
        segments: 0,
        embedding_norm: true,
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        head_activation: hf.activation("classifier_activation", "gelu"),
        head_transform_bias: hf.flag("classifier_bias", false),
        head_bias: hf.flag("decoder_bias", true),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 768),
            norm: NormConfig::Layer(LayerNormConfig {
                eps: hf.real("norm_eps", 1e-5),
                bias: hf.flag("norm_bias", false),
                ..LayerNormConfig::default()
            }),
            norm_placement: NormPlacement::Pre,
            first_norm: Some(false),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], 12),
                bias: hf.flag("attention_bias", false),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Gated(GatedConfig {
                d_ff: Some(hf.count(&["intermediate_size"], 1152)),
                activation: hf.activation("hidden_activation", "gelu"),
                bias: hf.flag("mlp_bias", false),
                ..GatedConfig::default()
            }),
            dropout_embedding: Some(hf.real("embedding_dropout", 0.0)),
            dropout_attention: Some(dropout),
            dropout_feed_forward: Some(hf.real("mlp_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    }
}

/// The positions of layers with full attention and of those with a window: one object each since version 5, two bases before.
fn positions(hf: &HfConfig, context: usize) -> [RotaryConfig; 2] {
    let objects = hf.nested("rope_parameters");
    let usual = [
        hf.real("global_rope_theta", THETA),
        hf.real("local_rope_theta", LOCAL_THETA),
    ];
    let both = [0, 1].map(|kind| objects.rotary_in(KINDS[kind], usual[kind], context));
    hf.merge_faults(objects);
    both
}

/// Sets the dense layer, activation and norm that all heads have.
fn heads(hf: &HfConfig, shape: &mut HfShape) {
    let whole = text_heads::is_sequence_task(&shape.task);
    let input = pooling(hf);
    let ModelConfig::Encoder(config) = &mut shape.model else {
        return;
    };
    if whole {
        config.pooler_activation = Some(config.head_activation);
        config.pooler_bias = config.head_transform_bias;
        config.pooler_norm = true;
        config.pooler_input = input;
    }
    config.token_transform = matches!(
        text_heads::ending(&shape.task),
        Some(text_heads::TOKEN_ENDING | text_heads::SPAN_ENDING)
    );
}

/// The pooling from which classes of whole texts are predicted.
fn pooling(hf: &HfConfig) -> PoolerInput {
    match hf.word("classifier_pooling", "cls") {
        "cls" => PoolerInput::First,
        "mean" => PoolerInput::Mean,
        other => {
            hf.fault(format!(
                "`classifier_pooling` = \"{other}\" is not supported; it must be \"cls\" or \"mean\""
            ));
            PoolerInput::First
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let (stack, depth) = (&config.stack, config.depth());
    let plain = summarize(stack, &depth).filter(|plain| plain.gated)?;
    let NormConfig::Layer(norm) = &stack.norm else {
        return None;
    };
    let class = text_heads::ending(&of.task).unwrap_or("ForMaskedLM");
    let (types, window) = layer_types::write_layer_types(stack, &depth)?;
    let StackSummary { layers, d_ff, .. } = plain;
    let mut written = json!({
        "architectures": [format!("ModernBert{class}")],
        "vocab_size": of.shape.vocab_size,
        "hidden_size": stack.d_model,
        "num_hidden_layers": layers,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": d_ff,
        "hidden_activation": plain.activation,
        "max_position_embeddings": of.shape.context,
        "norm_eps": plain.eps,
        "norm_bias": norm.bias,
        "attention_bias": plain.heads.bias,
        "mlp_bias": plain.bias,
        "decoder_bias": config.head_bias,
        "classifier_activation": activation_name(head_activation(of, config)),
        "classifier_bias": match text_heads::is_sequence_task(&of.task) {
            true => config.pooler_bias,
            false => config.head_transform_bias,
        },
        "classifier_pooling": match config.pooler_input {
            PoolerInput::First => "cls",
            // There is no word for the last position: the mismatch shows when the config is read back.
            PoolerInput::Mean | PoolerInput::Last => "mean",
        },
        "tie_word_embeddings": config.tie_embeddings,
        "local_attention": window.map_or(128, |window| (2 * (window - 1)).max(1)),
        "attention_dropout": plain.dropout.attention,
        "embedding_dropout": plain.dropout.embedding,
        "mlp_dropout": plain.dropout.feed_forward,
    });
    write_layers(&mut written, config, types)?;
    text_heads::write(&mut written, of);
    Some(written)
}

/// The activation of the head that the task uses.
fn head_activation(of: &HfShape, config: &EncoderConfig) -> crate::nn::feed_forward::Activation {
    let pooler = config
        .pooler_activation
        .filter(|_| text_heads::is_sequence_task(&of.task));
    pooler.unwrap_or(config.head_activation)
}

/// Writes the layers and their positions, in the form of version 5 and in that of earlier versions.
fn write_layers(written: &mut Value, config: &EncoderConfig, types: Value) -> Option<()> {
    let depth = config.depth();
    let global = rotary(&config.stack)?;
    let local = match config.stack.blocks(&depth).find_map(|block| block.position) {
        Some(PositionConfig::Rotary(local)) => local,
        Some(_) => return None,
        None => global,
    };
    if !fits_per_layer_kind(global) || !fits_per_layer_kind(local) {
        return None;
    }
    for (kind, rotary, theta) in [
        (KINDS[0], global, "global_rope_theta"),
        (KINDS[1], local, "local_rope_theta"),
    ] {
        let mut keys = json!({});
        add_rotary(&mut keys, rotary, "rope_theta");
        let mut object = match keys["rope_scaling"].take() {
            Value::Null => json!({ "rope_type": "default" }),
            scaling => scaling,
        };
        object["rope_theta"] = json!(rotary.theta);
        written["rope_parameters"][kind] = object;
        written[theta] = json!(rotary.theta);
    }
    let full: Vec<bool> = types.as_array()?.iter().map(|t| t == KINDS[0]).collect();
    let every = |n: &usize| {
        let mut layers = full.iter().enumerate();
        layers.all(|(layer, full)| *full == layer.is_multiple_of(*n))
    };
    if let Some(every) = (1..=full.len()).find(every) {
        written["global_attn_every_n_layers"] = json!(every);
    }
    written["layer_types"] = types;
    Some(())
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("model.");
    table.same(
        "model.embeddings.tok_embeddings.weight",
        "model.embedding.weight",
    );
    table.norm("model.embeddings.norm", "model.embedding_norm");
    table.norm("model.final_norm", "model.stack.final_norm");
    for layer in 0..config.n_layers() {
        add_layer(&mut table, config, layer);
    }
    let (dense, norm) = match text_heads::ending(&of.task) {
        Some(text_heads::BODY) => return table,
        Some(text_heads::SEQUENCE_ENDING) => ("model.pooler", "model.pooler_norm"),
        Some(_) => ("model.token_transform.dense", "model.token_transform.norm"),
        None => ("head.transform", "head.norm"),
    };
    table.linear("head.dense", dense, Orientation::OutIn);
    table.norm("head.norm", norm);
    if text_heads::ending(&of.task).is_some() {
        table.linear("classifier", "head", Orientation::OutIn);
        return table;
    }
    bert::add_product(&mut table, "decoder", config.tie_embeddings);
    if config.tie_embeddings {
        table.ignored.push("decoder.weight");
    }
    table
}

fn add_layer(table: &mut Table, config: &EncoderConfig, layer: usize) {
    let theirs = format!("model.layers.{layer}");
    let ours = format!("model.stack.blocks.{layer}");
    let block = config.stack.block(&config.depth(), layer);
    let d_model = config.stack.d_model;
    let heads = block
        .attention
        .map(AttentionConfig::heads)
        .unwrap_or_default();
    let fused = Fused {
        groups: 1,
        query: heads.n_heads,
        key_value: heads.n_kv_heads(),
        d_head: heads.d_head(d_model),
    };
    let attention = format!("{ours}.attention");
    table.fused(
        &format!("{theirs}.attn.Wqkv"),
        &attention,
        Orientation::OutIn,
        fused,
    );
    let d_ff = match block.feed_forward {
        Some(FeedForwardConfig::Gated(c)) => c.d_ff(d_model),
        _ => unreachable!("the family reads gated layers alone"),
    };
    let [gate, up] = ["gate", "up"].map(|part| format!("{ours}.feed_forward.{part}"));
    table.stacked(&format!("{theirs}.mlp.Wi"), [(&gate, d_ff), (&up, d_ff)]);
    table.linears(
        &theirs,
        &ours,
        &[
            ("attn.Wo", "attention.output"),
            ("mlp.Wo", "feed_forward.down"),
        ],
    );
    table.norms(
        &theirs,
        &ours,
        &[
            ("attn_norm", "attention_residual.norm"),
            ("mlp_norm", "feed_forward_residual.norm"),
        ],
    );
}
