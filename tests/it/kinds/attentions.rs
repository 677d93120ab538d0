//! Kinds of attention whose cost grows linearly with the length, or nearly so: their configurations in the contract tests.

use super::position;
use formwork::model::{DecoderConfig, EncoderConfig};
use formwork::nn::attention::{AttentionConfig, ReadingDirection};
use formwork::nn::position::{ActsOn, PositionConfig};
use formwork::stack::StackConfig;
use serde_json::{Value, json};

/// The keys of each kind, in a model of width 16 with 4 heads and inputs of up to 16 tokens.
pub fn kinds() -> Vec<Value> {
    let mut all = vec![
        json!({ "kind": "sliding_window", "n_heads": 4, "window": 5 }),
        json!({ "kind": "local", "n_heads": 4, "n_kv_heads": 2, "block": 3, "look_back": 1 }),
        json!({ "kind": "local", "n_heads": 4, "block": 4, "look_back": 0 }),
        json!({ "kind": "big_bird", "n_heads": 4, "block": 1, "random": 1, "seed": 3 }),
        json!({ "kind": "big_bird", "n_heads": 4, "n_kv_heads": 2, "block": 2, "random": 0 }),
        json!({ "kind": "strided", "n_heads": 4, "n_kv_heads": 2, "stride": 3 }),
        json!({ "kind": "strided", "n_heads": 4, "local_heads": 1 }),
        json!({ "kind": "fixed", "n_heads": 4, "n_kv_heads": 2, "stride": 4, "summary": 1 }),
        json!({ "kind": "fixed", "n_heads": 4, "stride": 4, "summary": 2, "merged": true }),
        json!({ "kind": "memory_compressed", "n_heads": 4, "n_kv_heads": 2, "factor": 2 }),
        json!({ "kind": "memory_compressed", "n_heads": 4, "factor": 3, "null_key": true }),
        json!({
            "kind": "adaptive_span", "n_heads": 4, "max_span": 8, "ramp": 3, "init_span": 0.3, "span_loss": 0.01,
        }),
        json!({ "kind": "linear", "n_heads": 4, "n_kv_heads": 2 }),
        json!({ "kind": "performer", "n_heads": 4, "features": 6, "redraw": 2 }),
        json!({
            "kind": "performer", "n_heads": 4, "n_kv_heads": 2, "kernel": "relu", "features": 9,
            "row_norms": "constant"
        }),
        json!({ "kind": "sliding_window", "n_heads": 4, "window": 4, "global": "shared", "dilation": [1, 2, 1, 1] }),
        json!({ "kind": "sliding_window", "n_heads": 4, "n_kv_heads": 2, "window": 3, "global": "own" }),
        json!({ "kind": "latent", "n_heads": 4, "d_nope": 4, "d_rope": 4, "d_value": 4, "kv_rank": 6 }),
        // Values that are wider than keys, and queries built from a low-rank latent.
        json!({
            "kind": "latent", "n_heads": 2, "d_nope": 2, "d_rope": 2, "d_value": 6, "kv_rank": 5, "q_rank": 7, "bias": true,
            "norm": { "kind": "layer" }, "scale": 0.4,
        }),
        json!({ "kind": "differential", "n_heads": 4, "n_kv_heads": 2 }),
        json!({
            "kind": "differential", "n_heads": 2, "d_head": 6, "lambda_init": 0.4, "gate": "elementwise", "clip": 0.8,
            "norm": { "kind": "layer", "bias": false, "gain": false },
        }),
        // A single chunk holds all inputs.
        json!({ "kind": "lsh", "n_heads": 4, "rounds": 2, "chunk": 16 }),
    ];
    for sharing in ["none", "headwise", "key_value", "layerwise"] {
        all.push(json!({ "kind": "linformer", "n_heads": 4, "n_kv_heads": 2, "k": 5, "sharing": sharing }));
    }
    all
}

/// Kinds in which a later token may change the keys that an earlier query sees (`AttentionFacts::depends_on_whole_row`).
pub fn regrouping_kinds() -> Vec<Value> {
    vec![
        json!({ "kind": "lsh", "n_heads": 4, "rounds": 2, "chunk": 4 }),
        json!({ "kind": "lsh", "n_heads": 2, "rounds": 1, "chunk": 2, "buckets": [2, 2], "bias": false, "redraw": false }),
    ]
}

/// Combines each kind with no positions, and with each position scheme that it supports.
fn stacks(kinds: Vec<Value>) -> Vec<(String, StackConfig)> {
    let mut all = Vec::new();
    for keys in kinds {
        let attention: AttentionConfig = serde_json::from_value(keys.clone()).unwrap();
        let carried = |p: &PositionConfig| match p.facts().acts_on() {
            ActsOn::Heads(means) => attention.supports_effect(means),
            ActsOn::Embeddings | ActsOn::Layers => true,
        };
        let schemes = [
            "learned",
            "rotary",
            "alibi",
            "relative_bias",
            "kerple",
            "dynamic_bias",
            "shaw",
            "transformer_xl",
            "disentangled",
        ];
        let schemes = schemes.map(position);
        for position in schemes.into_iter().filter(carried) {
            let name = format!("{keys} with {}", position.facts().kind().kind);
            let stack = StackConfig {
                d_model: 16,
                attention: attention.clone(),
                position,
                ..StackConfig::default()
            };
            all.push((name, stack));
        }
    }
    all
}

fn reading(but: ReadingDirection) -> impl Iterator<Item = (String, StackConfig)> {
    let all = stacks(kinds()).into_iter();
    all.filter(move |(_, stack)| stack.attention.facts().abilities().reads != but)
}

/// Decoders of the kinds that can attend from left to right.
pub fn decoders() -> impl Iterator<Item = (String, DecoderConfig)> {
    let all = reading(ReadingDirection::Bidirectional).map(decoder);
    all.chain(sinks_and_gates())
}

/// Heads with sinks, heads with gates, over all keys and in windows, and heads with clipping, between norms without gains.
fn sinks_and_gates() -> impl Iterator<Item = (String, DecoderConfig)> {
    let all = [
        json!({ "kind": "multi_head", "n_kv_heads": 2, "sinks": "learned", "gate": "elementwise" }),
        json!({ "kind": "sliding_window", "window": 3, "sinks": "zero", "gate": "headwise" }),
        json!({ "kind": "linear", "gate": "elementwise" }),
        json!({ "kind": "multi_head", "clip": 0.7, "qk_norm": { "kind": "rms", "gain": false } }),
    ];
    all.into_iter().map(|mut keys| {
        keys["n_heads"] = json!(4);
        let stack = StackConfig {
            d_model: 16,
            norm: serde_json::from_value(json!({ "kind": "layer", "gain": false, "bias": false })).unwrap(),
            attention: serde_json::from_value(keys.clone()).unwrap(),
            feed_forward: serde_json::from_value(json!({
                "kind": "moe", "n_experts": 3, "balance_loss": 0.1, "router_bias": true, "shared": 1, "shared_gate": true,
                "expert": { "kind": "gated", "d_ff": 6, "activation": "sigmoid", "clamp": 1.0, "linear_offset": 0.5 },
            }))
            .unwrap(),
            ..StackConfig::default()
        };
        decoder((format!("{keys} between experts"), stack))
    })
}

fn decoder((name, stack): (String, StackConfig)) -> (String, DecoderConfig) {
    let config = DecoderConfig {
        n_layers: Some(2),
        stack,
        ..DecoderConfig::default()
    };
    (name, config)
}

/// Decoders in which a later token may change the keys that an earlier query sees, so that a text read in parts, or beside
/// another one, gives slightly other outputs.
pub fn regrouping() -> impl Iterator<Item = (String, DecoderConfig)> {
    stacks(regrouping_kinds()).into_iter().map(decoder)
}

/// Encoders of the kinds that can only attend in both directions; the others follow from [`decoders`].
pub fn encoders() -> impl Iterator<Item = (String, EncoderConfig)> {
    let only = |stack: &StackConfig| {
        stack.attention.facts().abilities().reads == ReadingDirection::Bidirectional
    };
    let both_ways = reading(ReadingDirection::Causal).filter(move |(_, stack)| only(stack));
    both_ways.map(|(name, stack)| {
        let config = EncoderConfig {
            n_layers: Some(2),
            stack,
            ..EncoderConfig::default()
        };
        (name, config)
    })
}
