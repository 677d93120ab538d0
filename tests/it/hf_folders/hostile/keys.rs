//! Values of the wrong type or size, and names with control characters for a terminal: one fault each, in plain characters.

use super::super::files::{copy, parts, write_parts};
use super::super::{fixture, shown};
use super::{WEIGHTS, changed, ended, refused};
use serde_json::{Value, json};
use std::path::Path;

fn with(name: &str, key: &str, value: Value) -> tempfile::TempDir {
    changed(name, |dir| {
        let file = dir.join("config.json");
        let mut found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        found[key] = value;
        std::fs::write(&file, found.to_string()).unwrap();
    })
}

fn said(folder: &Path) -> String {
    let run = shown(&tempfile::tempdir().unwrap().path().join("run"));
    let output = ended(&["import", &shown(folder), &run]);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn values_of_another_type_are_faults() {
    for (name, key, values) in [
        (
            "gpt2_1",
            "activation_function",
            vec![json!(5), json!(["gelu"]), json!({}), json!(true)],
        ),
        (
            "gpt2_1",
            "n_embd",
            vec![json!("12"), json!(1.5), json!(true), json!({})],
        ),
        (
            "gpt2_1",
            "layer_norm_epsilon",
            vec![json!("1e-5"), json!(1e300), json!(-1e-5), json!([1e-5])],
        ),
        (
            "gpt2_1",
            "tie_word_embeddings",
            vec![json!(1), json!("true"), json!([])],
        ),
        ("gpt2_1", "attn_pdrop", vec![json!(-0.1), json!(true)]),
        ("gpt2_1", "architectures", vec![json!("GPT2"), json!([5])]),
        ("resnet_1", "layer_type", vec![json!(5), json!(["basic"])]),
        ("resnet_1", "id2label", vec![json!(["a", "b"]), json!("a")]),
        ("llama_1", "rope_scaling", vec![json!(5), json!("linear")]),
        ("t5_1", "feed_forward_proj", vec![json!(5), json!(["relu"])]),
        ("t5_1", "is_gated_act", vec![json!(true), json!("no")]),
        ("roberta_1", "pad_token_id", vec![json!("1"), json!(true)]),
        ("deberta_1", "pos_att_type", vec![json!(["p2c", "p2c"])]),
    ] {
        for value in values {
            let what = format!("{name}: {key} = {value}");
            let shown = format!("`{key}` = {value}");
            refused(&what, with(name, key, value).path(), &[&shown]);
        }
    }
}

#[test]
fn one_fault_is_told_once() {
    for (key, value) in [("n_positions", json!(0)), ("n_embd", json!(1e12))] {
        let said = said(with("gpt2_1", key, value).path());
        let errors = said.lines().filter(|line| line.starts_with("error:"));
        assert_eq!(errors.count(), 1, "{said}");
    }
    let many = changed("gpt2_1", |dir| {
        let file = dir.join("config.json");
        let mut found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        (0..500).for_each(|n| found[format!("unheard_of_{n}")] = json!(n));
        std::fs::write(&file, found.to_string()).unwrap();
    });
    let said = said(many.path());
    let errors = said.lines().filter(|line| line.starts_with("error:"));
    assert_eq!(errors.count(), 21, "{said}");
    assert!(said.contains("and 480 more"), "{said}");
}

#[test]
fn names_are_shown_without_control_characters() {
    let folder = copy(&fixture("gpt2_1"));
    let (mut header, mut data) = parts(&folder.path().join(WEIGHTS));
    let start = data.len();
    data.extend(1.0f32.to_le_bytes());
    header["a\u{1b}[31m\nerror: b"] =
        json!({"dtype": "F32", "shape": [1], "data_offsets": [start, data.len()]});
    write_parts(&folder.path().join(WEIGHTS), &header.to_string(), &data);
    let said = said(folder.path());
    assert!(!said.contains('\u{1b}'), "{said}");
    assert!(
        said.contains("`a\\u{1b}[31m\\nerror: b` has no place"),
        "{said}"
    );
    let key = with("gpt2_1", "c\u{1b}]0;\n", json!(1));
    refused("a key with an escape", key.path(), &["`c\\u{1b}]0;\\n`"]);
}

/// Keys of ModernBERT with values that its network does not support.
#[test]
fn other_layers_and_heads_of_modernbert() {
    let kinds = ["full_attention", "chunked_attention", "full_attention"];
    let rope = json!({ "rope_theta": 10_000.0, "rope_type": "default" });
    for (name, key, value, words) in [
        (
            "modernbert_3",
            "classifier_pooling",
            json!("max"),
            "`classifier_pooling` = \"max\" is not supported; it must be \"cls\" or \"mean\"",
        ),
        (
            "modernbert_1",
            "layer_types",
            json!(kinds),
            "`layer_types` must be a list of",
        ),
        (
            "modernbert_1",
            "rope_parameters",
            rope,
            "`rope_theta` is not known in this object",
        ),
        (
            "modernbert_1",
            "position_embedding_type",
            json!("relative_key"),
            "it must be \"absolute\"",
        ),
        (
            "modernbert_1",
            "architectures",
            json!(["ModernBertForMultipleChoice"]),
            "has no head that can be imported",
        ),
    ] {
        let what = format!("{name}: {key} = {value}");
        refused(&what, with(name, key, value).path(), &[words]);
    }
}

/// Keys of OPT, Phi, Phi-3 and OLMoE with values that their networks do not support, or that their classes interpret
/// differently.
#[test]
fn other_widths_stretchings_and_ranges() {
    let (right, longer) = (json!([1.0, 1.5]), json!([1.0, 1.5, 2.0]));
    let stretched =
        |long: Value| json!({ "type": "longrope", "short_factor": right, "long_factor": long });
    let linear = json!({ "rope_type": "linear", "factor": 2.0 });
    for (name, key, value, words) in [
        (
            "opt_1",
            "word_embed_proj_dim",
            json!(8),
            "`word_embed_proj_dim` = 8 is not supported; it must be 16",
        ),
        (
            "opt_1",
            "scale_embeddings",
            json!(true),
            "`scale_embeddings` = true is not supported",
        ),
        (
            "phi_1",
            "tie_word_embeddings",
            json!(true),
            "`tie_word_embeddings` = true is not supported",
        ),
        (
            "phi3_1",
            "rope_scaling",
            stretched(longer),
            "rope scaling: long_factor has 3 numbers, but 2 pairs of a head's elements are rotated",
        ),
        (
            "phi3_1",
            "rope_scaling",
            stretched(Value::Null),
            "rope scaling \"longrope\" needs `long_factor`",
        ),
        (
            "phi3_1",
            "rope_scaling",
            stretched(json!([1.0, "2"])),
            "`long_factor` = [1.0,\"2\"] is not a list of numbers",
        ),
        (
            "phi3_1",
            "rope_scaling",
            stretched(json!([1.0, 0.0])),
            "number 2 of long_factor is 0.0; it must be above 0",
        ),
        (
            "phi3_1",
            "rope_scaling",
            linear,
            "rope scaling must be \"default\" or \"longrope\"",
        ),
        (
            "phi3_1",
            "attention_bias",
            json!(true),
            "`attention_bias` = true is not supported",
        ),
        (
            "olmoe_1",
            "clip_qkv",
            json!(0.5),
            "`clip_qkv` = 0.5 is not supported",
        ),
        (
            "olmoe_1",
            "num_experts_per_tok",
            json!(5),
            "`num_experts_per_tok` = 5 is more than `num_experts` = 4",
        ),
    ] {
        let what = format!("{name}: {key} = {value}");
        let folder = with(name, key, value);
        refused(&what, folder.path(), &[words]);
        let said = said(folder.path());
        let errors = said.lines().filter(|line| line.starts_with("error:"));
        assert_eq!(errors.count(), 1, "{said}");
    }
}

/// Keys of StableLM, StarCoder2, DeiT, PEGASUS and mBART with values that their networks do not support.
#[test]
fn other_norms_numbers_and_classes() {
    for (name, key, value, words) in [
        (
            "stablelm_1",
            "qk_layernorm",
            json!(true),
            "`qk_layernorm` = true is not supported; it must be false",
        ),
        (
            "stablelm_1",
            "hidden_dropout",
            json!(0.1),
            "`hidden_dropout` = 0.1 is not supported",
        ),
        (
            "starcoder2_1",
            "norm_type",
            json!("rms_norm"),
            "it must be \"layer_norm\"",
        ),
        (
            "starcoder2_hub",
            "layer_norm_epsilon",
            json!(0.5),
            "`layer_norm_epsilon` = 0.5 is not supported",
        ),
        (
            "deit_1",
            "architectures",
            json!(["DeiTForImageClassification"]),
            "cannot be imported; DeiTForImageClassificationWithTeacher can",
        ),
        (
            "pegasus_1",
            "normalize_before",
            json!(false),
            "`normalize_before` = false is not supported; it must be true",
        ),
        (
            "mbart_1",
            "normalize_embedding",
            json!(false),
            "`normalize_embedding` = false is not supported; it must be true",
        ),
        // A second name for the number of encoder layers, which the class would use.
        (
            "mbart_1",
            "num_hidden_layers",
            json!(2),
            "`num_hidden_layers` = 2 is not supported; it must be 1",
        ),
        (
            "bart_1",
            "num_hidden_layers",
            json!(2),
            "`num_hidden_layers` = 2 is not supported; it must be 1",
        ),
    ] {
        let what = format!("{name}: {key} = {value}");
        refused(&what, with(name, key, value).path(), &[words]);
    }
}

/// Keys of SigLIP's towers with values that its networks do not support.
#[test]
fn other_towers_of_siglip() {
    for (tower, key, value, words) in [
        (
            "vision_config",
            "vision_use_head",
            json!(false),
            "`vision_use_head` = false is not supported; it must be true",
        ),
        (
            "vision_config",
            "patch_size",
            json!(5),
            "`patch_size` = 5 must divide `image_size` = 12",
        ),
        (
            "text_config",
            "projection_size",
            json!(13),
            "`projection_size` = 13 must be the size of image embeddings, `hidden_size` = 12 of `vision_config`",
        ),
        (
            "text_config",
            "pad_token_id",
            json!("1"),
            "`pad_token_id` = \"1\" is not the id of a token",
        ),
        (
            "text_config",
            "is_decoder",
            json!(true),
            "`is_decoder` = true is not supported; it must be false",
        ),
        (
            "text_config",
            "hidden_sise",
            json!(12),
            "`hidden_sise` is not known in this object",
        ),
    ] {
        let folder = changed("siglip_1", |dir| {
            let file = dir.join("config.json");
            let mut found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            found[tower][key] = value;
            std::fs::write(&file, found.to_string()).unwrap();
        });
        refused(&format!("{tower} {key}"), folder.path(), &[words]);
    }
}
