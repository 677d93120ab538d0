//! Numeric bounds in the schema, compared with the faults that `check` finds.

use std::fs;

use serde_json::{Value, json};

use super::keys::{put, read, validator};
use crate::binary::{formwork, shipped};

/// The schema has bounds for numbers wherever `check` has constant ones: both refuse a value beyond each bound.
#[test]
fn numbers_beyond_their_bounds_are_refused_by_the_schema_and_by_check() {
    let attention =
        |kind: &str, key: &str, value: Value| json!({ "kind": kind, "n_heads": 4, key: value });
    let of_attention = [
        ("multi_head", "n_heads", json!(0)),
        ("multi_head", "n_heads", json!(4097)),
        ("multi_head", "n_kv_heads", json!(0)),
        ("multi_head", "d_head", json!(0)),
        ("multi_head", "softcap", json!(0.0)),
        ("multi_head", "scale", json!(-1.0)),
        ("multi_head", "head_diversity", json!(-0.1)),
        ("sliding_window", "window", json!(0)),
        ("local", "block", json!(0)),
        ("big_bird", "block", json!(0)),
        ("strided", "stride", json!(0)),
        ("fixed", "summary", json!(0)),
        ("linformer", "k", json!(0)),
        ("memory_compressed", "factor", json!(0)),
        ("adaptive_span", "ramp", json!(0)),
        ("adaptive_span", "span_loss", json!(-1.0)),
        ("performer", "features", json!(0)),
        ("performer", "eps", json!(-1.0)),
        ("lsh", "rounds", json!(65)),
        ("lsh", "chunk", json!(0)),
        ("differential", "lambda_init", json!(1.5)),
        ("multi_head", "clip", json!(0.0)),
        ("latent", "d_nope", json!(0)),
        ("latent", "d_rope", json!(0)),
        ("latent", "d_value", json!(0)),
        ("latent", "kv_rank", json!(0)),
        ("latent", "q_rank", json!(0)),
        ("latent", "scale", json!(0.0)),
    ];
    let mut wrong: Vec<(&str, Value)> = of_attention
        .into_iter()
        .map(|(kind, key, value)| ("model.attention", attention(kind, key, value)))
        .collect();
    wrong.extend([
        ("model.d_model", json!(0)),
        ("model.dropout", json!(1.0)),
        ("model.dropout_residual", json!(-0.1)),
        ("model.drop_path", json!(1.0)),
        ("model.norm", json!({ "kind": "rms", "eps": 0.0 })),
        ("model.norm", json!({ "kind": "layer", "eps": -1.0 })),
        ("model.position", json!({ "kind": "rotary", "theta": 0.0 })),
        (
            "model.position",
            json!({ "kind": "rotary", "fraction": 1.5 }),
        ),
        (
            "model.position",
            json!({ "kind": "sinusoidal", "base": 0.0 }),
        ),
        (
            "model.position",
            json!({ "kind": "alibi", "max_exponent": 0.0 }),
        ),
        ("model.feed_forward", json!({ "kind": "dense", "d_ff": 0 })),
        ("model.feed_forward", json!({ "kind": "gated", "chunk": 0 })),
        (
            "model.feed_forward",
            json!({ "kind": "moe", "n_experts": 0, "top_k": 1 }),
        ),
        (
            "model.feed_forward",
            json!({ "kind": "moe", "n_experts": 2, "top_k": 1, "z_loss": -1.0 }),
        ),
        ("model.init", json!({ "kind": "gpt2", "std": 0.0 })),
        ("model.init", json!({ "kind": "xavier", "gain": -1.0 })),
        ("lora", json!({ "rank": 0 })),
        ("lora", json!({ "rank": 4, "alpha": 0.0 })),
        ("task.label_smoothing", json!(1.0)),
        ("task.second_target", json!(0.0)),
        ("optimizer.lr", json!(0.0)),
        ("optimizer.lr", json!(1e39)),
        ("optimizer.eps", json!(-1.0)),
        ("optimizer.eps", json!(0.0)),
        ("optimizer.eps", json!(1e-308)),
        ("optimizer", json!({ "kind": "adam", "eps": 0.0 })),
        ("optimizer", json!({ "kind": "lamb", "eps": 0.0 })),
        ("optimizer", json!({ "kind": "radam", "eps": 0.0 })),
        (
            "optimizer",
            json!({ "kind": "nadam", "momentum_decay": -1.0 }),
        ),
        ("optimizer", json!({ "kind": "adopt", "eps": 0.0 })),
        ("optimizer", json!({ "kind": "ademamix", "alpha": -1.0 })),
        ("optimizer", json!({ "kind": "ademamix", "alpha": 1e38 })),
        ("optimizer", json!({ "kind": "schedule_free", "lr": 0.0 })),
        (
            "optimizer",
            json!({ "kind": "soap", "precondition_frequency": 0 }),
        ),
        ("optimizer", json!({ "kind": "soap", "max_precond_dim": 0 })),
        ("optimizer", json!({ "kind": "adafactor", "eps": 0.0 })),
        ("optimizer", json!({ "kind": "muon", "adamw_eps": 0.0 })),
        ("optimizer", json!({ "kind": "muon", "adamw_lr": 1e39 })),
        ("optimizer", json!({ "kind": "sgd", "lr": 1e-40 })),
        (
            "optimizer",
            json!({ "kind": "sgd", "lr": 0.1, "momentum": 1.0 }),
        ),
        ("optimizer", json!({ "kind": "muon", "ns_steps": 0 })),
        ("schedule.final_fraction", json!(1.5)),
        ("train.batch_size", json!(0)),
        ("train.batch_size", json!(1 << 25)),
        ("train.keep_last", json!(0)),
        ("train.eval_every", json!(0)),
        ("train.checkpoint_every", json!(0)),
        ("train.eval_batches", json!(0)),
        ("train.patience", json!(-1)),
        ("train.log_every", json!(0)),
        ("train.clip_norm", json!(-1.0)),
        ("train.ema", json!(1.0)),
        ("train.ema", json!(-0.5)),
        ("train.spike_factor", json!(-1.0)),
        ("train.sample", json!({ "tokens": 0 })),
        ("train.sample", json!({ "temperature": -1.0 })),
        ("decode.sampling", json!({ "tokens": 0 })),
        ("decode.sampling", json!({ "top_k": 0 })),
        ("decode.sampling", json!({ "top_p": 1.5 })),
        ("decode.sampling", json!({ "min_p": 1.5 })),
        ("decode.sampling", json!({ "repetition_penalty": 0.0 })),
        ("decode.beam_search", json!({ "beam": 0 })),
        ("decode.beam_search", json!({ "beam": 4097 })),
        ("decode.beam_search", json!({ "beam": 2, "n_best": 0 })),
        ("data.length", json!(0)),
        (
            "ablation",
            json!({ "seeds": 0, "axes": { "model.n_layers": [1, 2] } }),
        ),
        (
            "ablation",
            json!({ "axes": { "model.n_layers": [1, 2] }, "halving": { "first": 0 } }),
        ),
        (
            "ablation",
            json!({ "axes": { "model.n_layers": [1, 2] }, "halving": { "first": 10, "eta": 1 } }),
        ),
        (
            "ablation",
            json!({ "axes": { "model.n_layers": [1, 2] }, "budget": { "flops": 0.0 } }),
        ),
    ]);
    let validator = validator();
    let folder = tempfile::tempdir().unwrap();
    let right = read(&shipped("experiments/smoke/tiny.toml"));
    let mut passed = Vec::new();
    for (number, (path, value)) in wrong.into_iter().enumerate() {
        let mut file = right.clone();
        put(&mut file, path, value.clone());
        if validator.fault(&file).is_none() {
            passed.push(format!("the schema: {path} = {value}"));
        }
        let written = folder.path().join(format!("{number}.toml"));
        fs::write(&written, toml::to_string(&file).unwrap()).unwrap();
        let check = formwork(&["check", &written.display().to_string()])
            .output()
            .unwrap();
        if check.status.code() != Some(2) {
            passed.push(format!("check: {path} = {value}"));
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}
