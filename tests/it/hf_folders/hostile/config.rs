//! Configurations that are not JSON, that describe other models than the weights, or that would take any amount of memory.

use super::super::{fixture, shown};
use super::{changed, ended, refused, refused_with};
use serde_json::{Value, json};

#[test]
fn damaged_configurations() {
    let config = |text: &str| {
        let text = text.to_string();
        changed("llama_1", |dir| {
            std::fs::write(dir.join("config.json"), text).unwrap()
        })
    };
    let good = std::fs::read_to_string(fixture("llama_1").join("config.json")).unwrap();
    for text in [
        "",
        "{",
        "[]",
        "null",
        "3",
        "\"llama\"",
        &good[..good.len() / 2],
        &"{\"a\":".repeat(50_000),
    ] {
        refused(
            "a damaged config.json",
            config(text).path(),
            &["config.json"],
        );
    }
    let bytes = changed("llama_1", |dir| {
        std::fs::write(dir.join("config.json"), [0xff, 0xfe, 0]).unwrap()
    });
    refused("bytes", bytes.path(), &["config.json"]);
    let none = changed("llama_1", |dir| {
        std::fs::remove_file(dir.join("config.json")).unwrap()
    });
    refused("no config.json", none.path(), &["config.json"]);

    let with = |key: &str, value: Value| {
        let mut found: Value = serde_json::from_str(&good).unwrap();
        found[key] = value;
        config(&found.to_string())
    };
    let huge = 1u64 << 40;
    for key in [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    ] {
        for value in [
            json!(huge),
            json!(0),
            json!(-1),
            json!(2.5),
            json!("24"),
            json!([24]),
            json!(1e300),
        ] {
            let what = format!("{key} = {value}");
            refused(&what, with(key, value).path(), &[key]);
        }
    }
    refused(
        "another number of layers",
        with("num_hidden_layers", json!(3)).path(),
        &["model.layers.2."],
    );
    refused(
        "a text as norm",
        with("rms_norm_eps", json!("small")).path(),
        &["rms_norm_eps"],
    );
    refused(
        "an unknown nonlinearity",
        with("hidden_act", json!("quick_gelu_2")).path(),
        &["hidden_act"],
    );
    refused(
        "an unknown rotation",
        with("rope_parameters", json!({"rope_type": "spiral"})).path(),
        &["spiral"],
    );
    refused(
        "an unknown family",
        with("model_type", json!("lama")).path(),
        &["lama", "llama"],
    );
    refused(
        "a path as family",
        with("model_type", json!("../../llama")).path(),
        &["model_type"],
    );
    refused(
        "an unknown class",
        with("architectures", json!(["LlamaForNothing"])).path(),
        &["LlamaForNothing"],
    );
    refused(
        "an unknown key",
        with("hiden_size", json!(24)).path(),
        &["hiden_size", "hidden_size"],
    );
    let twice = config(&good.replacen('{', "{\"hidden_size\": 8, ", 1));
    refused("a key twice", twice.path(), &["hidden_size"]);
}

/// A key that might change the forward pass is accepted if the user says that it does not.
#[test]
fn keys_are_ignored_on_demand() {
    let folder = changed("llama_1", |dir| {
        let text = std::fs::read_to_string(dir.join("config.json")).unwrap();
        let text = text.replacen('{', "{\"a_new_key\": true, ", 1);
        std::fs::write(dir.join("config.json"), text).unwrap();
    });
    refused("a new key", folder.path(), &["a_new_key", "--ignore-key"]);
    let work = tempfile::tempdir().unwrap();
    let (dir, run) = (shown(folder.path()), shown(&work.path().join("run")));
    let output = ended(&["import", &dir, &run, "--ignore-key", "a_new_key"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    refused_with(
        "an ignored key that is not there",
        folder.path(),
        &["--ignore-key", "other"],
        &["other"],
    );
}
