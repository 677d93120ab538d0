//! Keys of released config.json files without effect: ignored always, or only with the value that has no effect.

use super::hostile::refused;
use super::ties::import;
use super::{files, fixture};
use serde_json::{Value, json};
use std::fs;

/// Copies a fixture and adds keys to its config.json.
fn with_keys(name: &str, keys: &Value) -> tempfile::TempDir {
    let folder = files::copy(&fixture(name));
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(&path, config.to_string()).unwrap();
    folder
}

#[test]
fn keys_of_released_files_are_passed_over() {
    let off = json!({"is_decoder": false, "add_cross_attention": false, "model_max_length": 512});
    for (name, keys) in [
        (
            "bart_1",
            json!({"force_bos_token_to_be_generated": true, "replacing_rate": 0, "save_step": 88, "xla_device": true}),
        ),
        (
            "bert_1",
            json!({"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
                   "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform"}),
        ),
        (
            "bloom_1",
            json!({"attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "masked_softmax_fusion": true,
                   "offset_alibi": 100, "skip_bias_add": true, "skip_bias_add_qkv": false}),
        ),
        (
            "falcon_1",
            json!({"apply_residual_connection_post_layernorm": false}),
        ),
        (
            "gptj_1",
            json!({"rotary": true, "scale_attn_weights": true}),
        ),
        (
            "mpt_1",
            json!({"init_config": {"name": "kaiming_normal_", "verbose": 0}, "tokenizer_name": "gpt-neox-20b"}),
        ),
        ("deberta_1", json!({"padding_idx": 0})),
        (
            "reformer_1",
            json!({"intermediate_size": 3072, "num_chunks_after": 0, "num_chunks_before": 1}),
        ),
        ("qwen2_1", json!({"use_mrope": false})),
        ("llama_1", off.clone()),
        ("distilbert_1", off.clone()),
        ("deberta_2", off.clone()),
        ("bert_1", off),
    ] {
        let work = tempfile::tempdir().unwrap();
        import(with_keys(name, &keys).path(), &work.path().join("run"));
    }
}

#[test]
fn keys_that_change_something_with_this_value_are_refused() {
    for (name, key, value, only) in [
        (
            "falcon_1",
            "apply_residual_connection_post_layernorm",
            true,
            "false",
        ),
        ("gptj_1", "rotary", false, "true"),
        ("gptj_1", "scale_attn_weights", false, "true"),
        ("qwen2_1", "use_mrope", true, "false"),
        ("llama_1", "is_decoder", true, "false"),
        ("gemma_1", "add_cross_attention", true, "false"),
        ("distilbert_1", "is_decoder", true, "false"),
    ] {
        let folder = with_keys(name, &json!({key: value}));
        let why = format!("`{key}` = {value} is not supported; it must be {only}");
        refused(key, folder.path(), &[&why]);
    }
}
