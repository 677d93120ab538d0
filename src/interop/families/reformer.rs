//! Reformer (Kitaev et al. 2020): a reversible stack with local and hashing attention, axial positions, and a head that
//! reads both streams concatenated.
//!
//! The rotations for hashing come from counters here, from torch's generator there: the same weights hash by other planes.
//! Results are equal if one chunk holds the input, else they have the same distribution. The bias of the LM head is
//! `lm_head.decoder.bias`; versions before 5 of transformers had it as `lm_head.bias`, which later ones leave unused. Either is
//! read, and both are written.

use super::stack_summary::activation_name;
use super::{Family, HfShape, block, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::local::LocalConfig;
use crate::nn::attention::lsh::LshConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::axial::AxialConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{Join, LayerGroup, NormPlacement, ReversibleConfig, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "reformer",
    summary: "Reformer: hashed and local attention, reversible residuals, axial positions",
    read,
    write,
    table,
    declined: None,
};

/// A count that may be 0.
fn number(hf: &HfConfig, key: &str, default: usize) -> usize {
    let given = hf.typed(key, "a whole number", Value::as_u64);
    given.map_or(default, |n| n.min(1 << 20) as usize)
}

/// A list of numbers of at least 1; a single number is a list of one.
fn numbers(hf: &HfConfig, key: &str) -> Option<Vec<usize>> {
    let one = |value: &Value| {
        let number = value.as_u64().filter(|n| (1..=1 << 30).contains(n));
        number.map(|n| n as usize)
    };
    let read = |value: &Value| match value.as_array() {
        Some(all) if all.is_empty() => None,
        Some(all) => all.iter().map(one).collect(),
        None => Some(vec![one(value)?]),
    };
    hf.typed(key, "a number or a list of numbers of at least 1", read)
}

/// A pair of numbers.
fn pair(hf: &HfConfig, key: &str, default: [usize; 2]) -> [usize; 2] {
    match numbers(hf, key).as_deref() {
        None => default,
        Some([first, second]) => [*first, *second],
        Some(others) => {
            hf.fault(format!(
                "`{key}` has {} numbers; two are supported",
                others.len()
            ));
            default
        }
    }
}

/// The two kinds of attention in a file.
struct Kinds {
    local: AttentionConfig,
    lsh: AttentionConfig,
}

fn kinds(hf: &HfConfig) -> Kinds {
    let heads = MultiHeadConfig {
        n_heads: hf.count(&["num_attention_heads"], 12),
        d_head: Some(hf.count(&["attention_head_size"], 64)),
        bias: false,
        ..MultiHeadConfig::default()
    };
    // In a decoder, no query attends to chunks after its own.
    hf.get("local_num_chunks_after");
    // The seed is of torch's generator, which is not used here; each kind of layer has its own numbers of chunks.
    let _ = ["hash_seed", "num_chunks_after", "num_chunks_before"].map(|key| hf.get(key));
    Kinds {
        local: AttentionConfig::Local(LocalConfig {
            heads: heads.clone(),
            block: hf.count(&["local_attn_chunk_length"], 64),
            look_back: number(hf, "local_num_chunks_before", 1),
            look_ahead: None,
        }),
        lsh: AttentionConfig::Lsh(LshConfig {
            heads,
            rounds: hf.count(&["num_hashes"], 1),
            buckets: numbers(hf, "num_buckets"),
            chunk: hf.count(&["lsh_attn_chunk_length"], 64),
            look_back: number(hf, "lsh_num_chunks_before", 1),
            look_ahead: number(hf, "lsh_num_chunks_after", 0),
            redraw: true,
        }),
    }
}

/// The attention of every layer; reports a fault if the class would pad inputs in another way.
fn layers(hf: &HfConfig) -> Vec<AttentionConfig> {
    let kinds = kinds(hf);
    // The class counts the names in `attn_layers`, and its feed-forward layers are `feed_forward_size` wide.
    let _ = ["num_hidden_layers", "intermediate_size"].map(|key| hf.get(key));
    let usual = || json!(["local", "lsh"].repeat(3));
    let names = hf.get("attn_layers").cloned().unwrap_or_else(usual);
    let names = names.as_array().cloned().unwrap_or_default();
    if names.is_empty() {
        hf.fault("`attn_layers` is not a list of \"local\" and \"lsh\"");
    }
    let mut layers = Vec::new();
    for name in &names {
        layers.push(match name.as_str() {
            Some("local") => kinds.local.clone(),
            Some("lsh") => kinds.lsh.clone(),
            _ => {
                hf.fault(format!(
                    "`attn_layers` has {name}; layers are \"local\" or \"lsh\""
                ));
                break;
            }
        });
    }
    if let AttentionConfig::Local(local) = &kinds.local
        && local.look_back > 1
        && layers.contains(&kinds.local)
    {
        let (back, chunk) = (local.look_back, local.block);
        hf.warn(format!(
            "`local_num_chunks_before` = {back}: for texts of more than {chunk} and at most {back} times {chunk} tokens, \
             transformers counts keys several times and this model counts them once"
        ));
    }
    let hashes = layers.contains(&kinds.lsh);
    if let (AttentionConfig::Lsh(lsh), AttentionConfig::Local(local)) = (&kinds.lsh, &kinds.local)
        && hashes
        && layers.contains(&kinds.local)
        && !lsh.chunk.is_multiple_of(local.block)
    {
        hf.fault(format!(
            "`lsh_attn_chunk_length` = {} is not a multiple of `local_attn_chunk_length` = {}: the class pads inputs to a \
             multiple of both, which adds chunks to the hashed input",
            lsh.chunk, local.block
        ));
    }
    layers
}

fn position(hf: &HfConfig) -> PositionConfig {
    hf.get("axial_norm_std");
    let shape = pair(hf, "axial_pos_shape", [64, 64]);
    let widths = pair(hf, "axial_pos_embds_dim", [64, 192]);
    match hf.flag("axial_pos_embds", true) {
        true => PositionConfig::Axial(AxialConfig {
            axial_shape: Some(shape),
            axial_widths: Some(widths),
            ..AxialConfig::default()
        }),
        false => PositionConfig::Learned(LearnedConfig::default()),
    }
}

fn read(hf: &HfConfig) -> HfShape {
    if !hf.flag("is_decoder", false) {
        hf.fault(
            "`is_decoder` must be true: in bidirectional classes, local layers attend from the first chunk to the last",
        );
    }
    let class = hf.architecture().unwrap_or("ReformerModelWithLMHead");
    if !["ReformerModelWithLMHead", "ReformerModel"].contains(&class) {
        hf.fault(format!(
            "`architectures` has \"{class}\"; a Reformer can only be imported as ReformerModelWithLMHead"
        ));
    }
    hf.only("tie_word_embeddings", false);
    // Only affects memory.
    hf.get("chunk_size_lm_head");
    let feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(hf.count(&["feed_forward_size"], 512)),
        activation: hf.activation("hidden_act", "relu"),
        bias: true,
        chunk: Some(number(hf, "chunk_size_feed_forward", 0)).filter(|chunk| *chunk > 0),
    });
    let layers = layers(hf);
    let hashes = layers.iter().any(|c| matches!(c, AttentionConfig::Lsh(_)));
    let of_local = hf.real("local_attention_probs_dropout_prob", 0.05);
    let of_lsh = hf.real("lsh_attention_probs_dropout_prob", 0.0);
    let group = |attention| LayerGroup {
        attention: Some(attention),
        feed_forward: Some(feed_forward.clone()),
        ..LayerGroup::default()
    };
    let dropout = hf.real("hidden_dropout_prob", 0.05);
    let config = DecoderConfig {
        layers: layers.into_iter().map(group).collect(),
        tie_embeddings: false,
        head_bias: true,
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 256),
            norm: layer_norm(hf.real("layer_norm_eps", 1e-12)),
            norm_placement: NormPlacement::Pre,
            reversible: Some(ReversibleConfig {
                join: Join::Concatenation,
            }),
            position: position(hf),
            dropout_embedding: Some(dropout),
            dropout_residual: Some(dropout),
            dropout_feed_forward: Some(dropout),
            dropout_output: Some(dropout),
            dropout_attention: Some(if hashes { of_lsh } else { of_local }),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 320);
    let context = hf.count(&["max_position_embeddings"], 4096);
    HfShape::language_model(config, vocab_size, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let (stack, depth) = (&config.stack, config.depth());
    let FeedForwardConfig::Dense(feed_forward) = stack.block(&depth, 0).feed_forward? else {
        return None;
    };
    let NormConfig::Layer(norm) = &stack.norm else {
        return None;
    };
    let dropouts = stack.dropouts();
    let mut written = json!({
        "architectures": ["ReformerModelWithLMHead"],
        "is_decoder": true,
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": stack.d_model,
        "feed_forward_size": feed_forward.d_ff(stack.d_model),
        "hidden_act": activation_name(feed_forward.activation),
        "chunk_size_feed_forward": feed_forward.chunk.unwrap_or(0),
        "layer_norm_eps": norm.eps,
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_dropout_prob": dropouts.residual,
        "local_attention_probs_dropout_prob": dropouts.attention,
        "lsh_attention_probs_dropout_prob": dropouts.attention,
    });
    let mut names = Vec::new();
    for layer in 0..depth.blocks() {
        let attention = stack.block(&depth, layer).attention?;
        let heads = attention.heads();
        written["num_attention_heads"] = json!(heads.n_heads);
        written["attention_head_size"] = json!(heads.d_head(stack.d_model));
        match attention {
            AttentionConfig::Local(c) => {
                names.push("local");
                written["local_attn_chunk_length"] = json!(c.block);
                written["local_num_chunks_before"] = json!(c.look_back);
            }
            AttentionConfig::Lsh(c) => {
                names.push("lsh");
                written["num_hashes"] = json!(c.rounds);
                written["num_buckets"] = match c.buckets.as_deref() {
                    None => Value::Null,
                    Some([one]) => json!(one),
                    Some(factors) => json!(factors),
                };
                written["lsh_attn_chunk_length"] = json!(c.chunk);
                written["lsh_num_chunks_before"] = json!(c.look_back);
                written["lsh_num_chunks_after"] = json!(c.look_ahead);
            }
            _ => return None,
        }
    }
    written["attn_layers"] = json!(names);
    match &stack.position {
        PositionConfig::Axial(c) => {
            written["axial_pos_embds"] = json!(true);
            written["axial_pos_shape"] = json!(c.shape(of.shape.context));
            written["axial_pos_embds_dim"] = json!(c.widths(stack.d_model));
        }
        PositionConfig::Learned(_) => written["axial_pos_embds"] = json!(false),
        _ => return None,
    }
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("reformer.");
    let embeddings = "reformer.embeddings";
    table.same(
        format!("{embeddings}.word_embeddings.weight"),
        "embedding.weight",
    );
    let positions = format!("{embeddings}.position_embeddings");
    let d_model = config.stack.d_model;
    if let PositionConfig::Axial(axial) = &config.stack.position {
        let ([rows, columns], [first, second]) =
            (axial.shape(of.shape.context), axial.widths(d_model));
        for (number, ours, shape) in [
            (0, "position.rows", vec![rows, 1, first]),
            (1, "position.columns", vec![1, columns, second]),
        ] {
            table.reshaped(format!("{positions}.weights.{number}"), ours, shape);
        }
    }
    table.same(format!("{positions}.embedding.weight"), "position.table");
    for layer in 0..config.n_layers() {
        let theirs = format!("reformer.encoder.layers.{layer}");
        let ours = block(layer);
        table.norm(
            &format!("{theirs}.attention.layer_norm"),
            &ours.attention_norm,
        );
        table.norm(
            &format!("{theirs}.feed_forward.layer_norm"),
            &ours.feed_forward_norm,
        );
        let attention = [
            ("self_attention.query_key", "query_key"),
            ("self_attention.query", "query"),
            ("self_attention.key", "key"),
            ("self_attention.value", "value"),
            ("output.dense", "output"),
        ];
        for (name, path) in attention {
            let (theirs, ours) = (format!("{theirs}.attention.{name}"), &ours.attention);
            table.linear(&theirs, &format!("{ours}.{path}"), Orientation::OutIn);
        }
        for (name, path) in [("dense.dense", "up"), ("output.dense", "down")] {
            let (theirs, ours) = (format!("{theirs}.feed_forward.{name}"), &ours.feed_forward);
            table.linear(&theirs, &format!("{ours}.{path}"), Orientation::OutIn);
        }
    }
    table.norm("reformer.encoder.layer_norm", "stack.final_norm");
    table.same("lm_head.decoder.weight", "head.weight");
    let (bias, older) = ("lm_head.decoder.bias", "lm_head.bias".to_string());
    table.same(bias, "head.bias");
    table.alias(older.clone(), "head.bias".into());
    table.copies.push((older, bias.into()));
    table.ignored = vec!["mask_value_float16", "mask_value_float32"];
    table.within("model.")
}
