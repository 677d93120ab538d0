//! GPT-Neo (Black et al. 2021): GPT-2 whose layers alternate between full attention and a sliding window, with unscaled
//! attention scores, and no attention biases except on the output projection.
//!
//! As here, a window of `window_size` keys includes the query's own position.

use super::layer_types::period;
use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, block, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::attention::sliding_window::SlidingWindowConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{BlockConfig, LayerGroup, NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gpt_neo",
    summary: "GPT-Neo: GPT-2 with alternating full and sliding-window attention, unscaled scores",
    read,
    write,
    table,
    declined: None,
};

/// Maximum number of layers that the lists in a file may describe.
const MOST_LAYERS: usize = 10_000;

fn read(hf: &HfConfig) -> HfShape {
    let n_layers = hf.count(&["num_layers", "num_hidden_layers"], 24);
    let context = hf.count(&["max_position_embeddings"], 2048);
    let heads = MultiHeadConfig {
        n_heads: hf.count(&["num_heads", "num_attention_heads"], 16),
        bias: false,
        out_bias: Some(true),
        scale: Some(1.0),
        ..MultiHeadConfig::default()
    };
    let window = hf.count(&["window_size"], 256);
    let feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: hf.count_if_any(&["intermediate_size"]),
        activation: hf.activation("activation_function", "gelu_new"),
        bias: true,
        ..DenseConfig::default()
    });
    let attention = |local: bool| match local {
        true => {
            AttentionConfig::SlidingWindow(SlidingWindowConfig::with_window(heads.clone(), window))
        }
        false => AttentionConfig::MultiHead(heads.clone()),
    };
    let mut config = DecoderConfig {
        n_layers: Some(n_layers),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 2048),
            norm: layer_norm(hf.real("layer_norm_epsilon", 1e-5)),
            norm_placement: NormPlacement::Pre,
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context),
                ..LearnedConfig::default()
            }),
            dropout_embedding: Some(hf.real("embed_dropout", 0.0)),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_residual: Some(hf.real("resid_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    match period(&locals(hf, n_layers)) {
        [local] => {
            config.stack.attention = attention(*local);
            config.stack.feed_forward = feed_forward;
        }
        several => {
            let group = |local: &bool| LayerGroup {
                attention: Some(attention(*local)),
                feed_forward: Some(feed_forward.clone()),
                ..LayerGroup::default()
            };
            config.layers = several.iter().map(group).collect();
        }
    }
    HfShape::language_model(config, hf.count(&["vocab_size"], 50257), context)
}

/// Which layers have a window. `attention_layers` names the kind of each layer, and takes precedence in the class;
/// `attention_types` lists sequences of kinds with their numbers of repeats, `[[["global", "local"], 12]]`.
fn locals(hf: &HfConfig, n_layers: usize) -> Vec<bool> {
    let types = hf.get("attention_types");
    let found = match (hf.get("attention_layers"), types) {
        (Some(layers), _) => kinds(layers),
        (None, Some(types)) => expanded(types),
        (None, None) => Some([false, true].repeat(12)),
    };
    match found {
        Some(locals) if locals.len() == n_layers => locals,
        Some(locals) => {
            let found = locals.len();
            hf.fault(format!(
                "the attention lists have {found} layers, but `num_layers` is {n_layers}"
            ));
            vec![false]
        }
        None => {
            let rule = "`attention_layers` and `attention_types` must be lists of \"global\" and \"local\", for example \
                        [[[\"global\", \"local\"], 12]]";
            hf.fault(rule);
            vec![false]
        }
    }
}

/// Reads a list of kinds as whether each is local.
fn kinds(list: &Value) -> Option<Vec<bool>> {
    let local = |kind: &Value| match kind.as_str()? {
        "local" => Some(true),
        "global" => Some(false),
        _ => None,
    };
    list.as_array()?.iter().map(local).collect()
}

/// The kinds of all layers, from sequences with their numbers of repeats.
fn expanded(types: &Value) -> Option<Vec<bool>> {
    let mut all = Vec::new();
    for item in types.as_array()? {
        let repeats = usize::try_from(item.get(1)?.as_u64()?).ok()?;
        let kinds = kinds(item.get(0)?)?;
        if kinds.len().saturating_mul(repeats) > MOST_LAYERS {
            return None;
        }
        all.extend(kinds.repeat(repeats));
    }
    Some(all)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let depth = config.depth();
    let plain = summarize(&config.stack, &depth)?;
    let window = |block: BlockConfig| {
        let Some(AttentionConfig::SlidingWindow(c)) = block.attention else {
            return None;
        };
        Some(c.window)
    };
    let windows: Vec<Option<usize>> = config.stack.blocks(&depth).map(window).collect();
    let locals: Vec<bool> = windows.iter().map(Option::is_some).collect();
    let named = |locals: &[bool]| -> Vec<&str> {
        let name = |local: &bool| if *local { "local" } else { "global" };
        locals.iter().map(name).collect()
    };
    let period = period(&locals);
    let repeats = plain.layers / period.len().max(1);
    Some(json!({
        "architectures": ["GPTNeoForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": positions(&config.stack, of.shape.context),
        "hidden_size": config.stack.d_model,
        "num_layers": plain.layers,
        "num_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "attention_types": [[named(period), repeats]],
        "attention_layers": named(&locals),
        "window_size": windows.iter().flatten().next().copied().unwrap_or(256),
        "activation_function": plain.activation,
        "layer_norm_epsilon": plain.eps,
        "tie_word_embeddings": config.tie_embeddings,
        "embed_dropout": plain.dropout.embedding,
        "attention_dropout": plain.dropout.attention,
        "resid_dropout": plain.dropout.residual,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("transformer.");
    table.same("transformer.wte.weight", "embedding.weight");
    table.same("transformer.wpe.weight", "position.table");
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.h.{layer}");
        let ours = block(layer);
        table.norm(&format!("{theirs}.ln_1"), &ours.attention_norm);
        let projections = [
            ("q_proj", "query"),
            ("k_proj", "key"),
            ("v_proj", "value"),
            ("out_proj", "output"),
        ];
        let attention = format!("{theirs}.attn.attention");
        table.linears(&attention, &ours.attention, &projections);
        table.norm(&format!("{theirs}.ln_2"), &ours.feed_forward_norm);
        let matrices = [("c_fc", "up"), ("c_proj", "down")];
        table.linears(&format!("{theirs}.mlp"), &ours.feed_forward, &matrices);
    }
    table.norm("transformer.ln_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec![".attn.attention.bias", ".attn.attention.masked_bias"];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
