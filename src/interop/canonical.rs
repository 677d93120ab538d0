//! The canonical form of a model, which does not depend on the keys that its config uses. Two models are equal here if
//! they compute the same from the same weights.
//!
//! Defaults are written out, blocks are listed one by one, and keys that matter only to training are left out: dropout,
//! initialisation, auxiliary losses of layers.

use super::families::HfShape;
use crate::data::masked::masking::Pairs;
use crate::model::{EncoderConfig, ModelConfig, Use, VisionLanguageConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::PositionConfig;
use crate::nn::recurrent::MixerConfig;
use crate::stack::{BlockConfig, Depth, NormPlacement, StackConfig};
use crate::task::TaskConfig;
use serde_json::{Map, Value, json};

/// Keys that do not change the forward pass of an evaluation.
const TRAINING_KEYS: &[&str] = &[
    "dropout",
    "dropout_embedding",
    "dropout_attention",
    "dropout_residual",
    "dropout_feed_forward",
    "dropout_output",
    "dropout_after_projection",
    "dropout_projection",
    "drop_path",
    "init",
    "head_diversity",
    "redraw",
    "dt_min",
    "dt_max",
    "balance_loss",
    "z_loss",
    "capacity_factor",
    "temperature",
    // How the coordinates of patches are shifted and scaled in training.
    "shift",
    "jitter",
    "rescale",
    // Whether scores have a bias follows from the task.
    "logit_bias",
];

/// Keys that say how many hidden states are carried from one segment of a text to the next.
const MEMORY_KEYS: &[&str] = &[".memory", ".memory_at_evaluation"];

/// Keys that the list of blocks replaces.
const BLOCK_KEYS: &[&str] = &[
    "n_layers",
    "n_encoder_layers",
    "n_decoder_layers",
    "layers",
    "encoder_layers",
    "decoder_layers",
    "attention",
    "feed_forward",
    "cross",
    "share_layers",
];

/// Returns the model as dotted keys with their values.
pub(super) fn canonical(of: &HfShape) -> Map<String, Value> {
    let mut model = network(&of.model, of);
    for (key, part) in of.model.parts().into_iter().flatten() {
        model[key] = network(part, of);
    }
    if let ModelConfig::VisionLanguage(c) = &of.model {
        cross_modal(c, &mut model);
    }
    let pairs = match &of.task {
        TaskConfig::MaskedLm(c) => c.pairs != Pairs::None,
        _ => false,
    };
    let shape = &of.shape;
    // Data may have classes that the task does not read.
    let classes = match of.task.facts().reads_classes() {
        true => shape.classes.len(),
        false => 0,
    };
    let whole = json!({
        "model": model,
        "task": {
            "kind": of.task.kind(),
            "pairs": pairs,
            "towers": of.task.facts().has_towers(),
            "biased_scores": of.task.facts().demand().has_score_bias,
        },
        "shape": {
            "vocab_size": shape.vocab_size,
            "source_vocab_size": shape.source_vocab_size,
            "image": image(of),
            // Recordings read as raw samples may have any length.
            "speech": shape.speech.filter(|speech| speech.n_mels > 0),
            "blank": shape.blank,
            "classes": classes,
        },
    });
    let mut flat = Map::new();
    flatten("", &whole, &mut flat);
    if of.task.facts().demand().has_query_stream {
        // Memory from step to step is passed explicitly from call to call in other implementations.
        flat.retain(|key, _| !MEMORY_KEYS.iter().any(|of| key.ends_with(of)));
    }
    flat
}

/// Adds the layers between the two networks of a vision-language model: cross-attention and resampler.
fn cross_modal(config: &VisionLanguageConfig, model: &mut Value) {
    if let Some(decoder) = config.decoder() {
        let (cross, d_model) = (&config.cross_attention, decoder.stack.d_model);
        let keys = &mut model["cross_attention"];
        keys["attention"] = attention(&cross.attention_config(decoder), d_model);
        keys["feed_forward"] = json!(
            cross
                .feed_forward
                .as_ref()
                .map(|c| feed_forward(c, d_model))
        );
    }
    if let Some(resampler) = &config.resampler {
        let d_model = config.image.d_output();
        let keys = &mut model["resampler"];
        keys["attention"] = attention(&resampler.attention, d_model);
        keys["feed_forward"] = feed_forward(&resampler.feed_forward, d_model);
    }
}

/// The canonical form of one network of a model, or of the model itself.
fn network(config: &ModelConfig, of: &HfShape) -> Value {
    let mut model = serde_json::to_value(config).unwrap_or_default();
    if let ModelConfig::Encoder(encoder) = config {
        model["mask_decoder"] = mask_decoder(encoder, of);
    }
    if let ModelConfig::EncoderDecoder(pair) = config {
        let rows = pair.position_rows(of.shape.context);
        model["target_max_len"] = json!(rows.map(|[_, target]| target));
    }
    if let Some(network) = config.transformer() {
        let stack = network.stack;
        let keys = model.as_object_mut();
        if let Some(keys) = keys {
            keys.retain(|key, _| !BLOCK_KEYS.contains(&key.as_str()));
        }
        let depths = network.depths();
        let blocks = depths.map(|depth| {
            let blocks = stack.blocks(&depth);
            blocks.map(|b| block(b, stack)).collect::<Value>()
        });
        model["blocks"] = blocks.collect();
        model["owners"] = network
            .depths()
            .map(|depth| owners(stack, &depth))
            .collect();
        model["first_norm"] = json!(!stack.lacks_first_norm());
        model["final_norm"] = json!(stack.has_final_norm());
        let parallel = stack.norm_placement == NormPlacement::Parallel;
        model["shared_parallel_norm"] =
            json!(parallel.then_some(stack.shared_parallel_norm != Some(false)));
        model["position"] = match stack.position.has_heads() {
            // Each block has its own key.
            true => Value::Null,
            false => position(stack, of.shape.context),
        };
    }
    model
}

/// The decoder of masked tokens with the number of rows of its table, if the task predicts masked tokens.
fn mask_decoder(encoder: &EncoderConfig, of: &HfShape) -> Value {
    let guesses = of.task.network_use() == Use::MaskedTokens;
    let Some(decoder) = encoder.mask_decoder.as_ref().filter(|_| guesses) else {
        return Value::Null;
    };
    json!({
        "steps": decoder.steps,
        "max_len": decoder.max_len.unwrap_or(of.shape.context),
    })
}

/// The channels of images, and their size if the network is made for one size.
fn image(of: &HfShape) -> Value {
    let [channels, height, width] = match of.shape.image {
        Some(image) => image,
        None => return Value::Null,
    };
    match &of.model {
        ModelConfig::Resnet(_) => json!([channels]),
        _ => json!([channels, height, width]),
    }
}

/// For each layer, the layers whose parameters it uses for mixing and for its feed-forward part.
fn owners(stack: &StackConfig, depth: &Depth) -> Value {
    let owners = stack.share_layers.owners(depth.blocks());
    let layers = 0..depth.blocks();
    let of = |layer| json!([owners.mixer_owner(layer), owners.feed_forward_owner(layer)]);
    layers.map(of).collect()
}

fn block(block: BlockConfig, stack: &StackConfig) -> Value {
    let d_model = stack.d_model;
    let of_model = Some(&stack.position).filter(|position| position.has_heads());
    let position = block.position.or(of_model);
    json!({
        "position": block.attention.and(position),
        "attention": block.attention.map(|c| attention(c, d_model)),
        "mixer": block.mixer.map(|c| mixer(c, d_model)),
        "feed_forward": block.feed_forward.map(|c| feed_forward(c, d_model)),
        "cross": block.cross.map(|c| attention(c, d_model)),
    })
}

fn mixer(config: &MixerConfig, d_model: usize) -> Value {
    let mut keys = serde_json::to_value(config).unwrap_or_default();
    match config {
        MixerConfig::Mamba(c) => keys["dt_rank"] = json!(c.dt_rank(d_model)),
        MixerConfig::Mamba2(c) => keys["d_head"] = json!(c.d_head(d_model)),
        MixerConfig::GatedDelta(c) => {
            keys["n_key_heads"] = json!(c.n_key_heads());
            keys["d_key"] = json!(c.d_key(d_model));
            keys["d_value"] = json!(c.d_value(d_model));
        }
        MixerConfig::Retention(c) => {
            keys["d_key"] = json!(c.d_key(d_model));
            keys["d_value"] = json!(c.d_value(d_model));
        }
        MixerConfig::Rwkv(c) => keys["width"] = json!(c.width(d_model)),
        MixerConfig::Rwkv7(c) => {
            keys["d_head"] = json!(c.d_head(d_model));
            keys["decay_rank"] = json!(c.decay_rank(d_model));
            keys["rate_rank"] = json!(c.rate_rank(d_model));
            keys["value_rank"] = json!(c.value_rank(d_model));
            keys["gate_rank"] = json!(c.gate_rank(d_model));
        }
        MixerConfig::Elman(_)
        | MixerConfig::Gru(_)
        | MixerConfig::Lstm(_)
        | MixerConfig::Fourier(_) => {}
    }
    keys
}

fn attention(config: &AttentionConfig, d_model: usize) -> Value {
    let heads = config.heads();
    let d_head = heads.d_head(d_model);
    let mut keys = serde_json::to_value(config).unwrap_or_default();
    keys["n_kv_heads"] = json!(heads.n_kv_heads());
    keys["d_head"] = json!(d_head);
    keys["key_bias"] = json!(heads.key_bias.unwrap_or(heads.bias));
    keys["out_bias"] = json!(heads.out_bias.unwrap_or(heads.bias));
    keys["scale"] = json!(heads.scale.unwrap_or(1.0 / (d_head as f64).sqrt()));
    keys
}

fn feed_forward(config: &FeedForwardConfig, d_model: usize) -> Value {
    let mut keys = serde_json::to_value(config).unwrap_or_default();
    match config {
        FeedForwardConfig::Dense(c) => keys["d_ff"] = json!(c.d_ff(d_model)),
        FeedForwardConfig::Gated(c) => keys["d_ff"] = json!(c.d_ff(d_model)),
        FeedForwardConfig::Rwkv(c) => keys["d_ff"] = json!(c.d_ff(d_model)),
        FeedForwardConfig::Rwkv7(c) => keys["d_ff"] = json!(c.d_ff(d_model)),
        FeedForwardConfig::Moe(c) => {
            keys["normalize_weights"] = json!(c.normalizes());
            keys["expert"]["d_ff"] = json!(c.expert.d_ff(d_model));
        }
    }
    // The chunk size says how a layer is computed, not what it computes.
    if let Some(keys) = keys.as_object_mut() {
        keys.remove("chunk");
    }
    keys
}

/// The position scheme with the sizes of its tables.
fn position(stack: &StackConfig, context: usize) -> Value {
    let mut keys = serde_json::to_value(&stack.position).unwrap_or_default();
    if let PositionConfig::Learned(c) = &stack.position {
        keys["max_len"] = json!(c.max_len.unwrap_or(context + c.first));
    }
    if let PositionConfig::Axial(c) = &stack.position {
        keys["axial_shape"] = json!(c.shape(context));
        keys["axial_widths"] = json!(c.widths(stack.d_model));
    }
    keys
}

/// Flattens objects and lists to dotted keys; nulls and keys of training are left out.
fn flatten(path: &str, value: &Value, flat: &mut Map<String, Value>) {
    let below = |name: &str| match path {
        "" => name.to_string(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Null => {}
        Value::Object(keys) => {
            for (key, value) in keys {
                if !TRAINING_KEYS.contains(&key.as_str()) {
                    flatten(&below(key), value, flat);
                }
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                flatten(&below(&number.to_string()), item, flat);
            }
        }
        plain => {
            flat.insert(path.to_string(), plain.clone());
        }
    }
}
