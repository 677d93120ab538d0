//! Adapter folders that are damaged, malicious or for another model: one clear error each, and no run left behind.

use super::peft::{adapter, base};
use super::shown;
use crate::binary::formwork;
use serde_json::{Value, json};
use std::path::Path;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// Copies an adapter, so that the copy can be damaged.
fn copy(name: &str) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in [CONFIG, WEIGHTS] {
        std::fs::copy(adapter(name).join(file), to.path().join(file)).unwrap();
    }
    to
}

fn refused(what: &str, model: &str, folder: &Path, words: &[&str]) {
    let work = tempfile::tempdir().unwrap();
    let run = work.path().join("run");
    let (hf, folder) = (shown(&base(model)), shown(folder));
    let arguments = ["import", &hf, &shown(&run), "--adapter", &folder];
    let ended = formwork(&arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    for word in words {
        assert!(said.contains(word), "{what}: `{word}` is not in\n{said}");
    }
    assert!(
        said.len() < 3000,
        "{what}: a message of {} bytes",
        said.len()
    );
    assert!(!run.exists(), "{what}: a run is left");
}

fn with_config(name: &str, change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let folder = copy(name);
    let path = folder.path().join(CONFIG);
    let mut config = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut config);
    std::fs::write(&path, config.to_string()).unwrap();
    folder
}

#[test]
fn configurations_that_say_something_else() {
    for (key, value, words) in [
        ("peft_type", json!("IA3"), &["peft_type", "LORA"][..]),
        ("use_dora", json!(true), &["use_dora", "cannot be imported"]),
        ("bias", json!("all"), &["bias", "none"]),
        ("lora_bias", json!(true), &["lora_bias"]),
        (
            "init_lora_weights",
            json!("pissa"),
            &["init_lora_weights", "base"],
        ),
        ("layer_replication", json!([[0, 1]]), &["layer_replication"]),
        ("surprise", json!(3), &["surprise"]),
        ("r", json!(0), &["`r`", "above 0"]),
        ("r", json!(1u64 << 40), &["`r`", "65536"]),
        ("r", json!("8"), &["`r`", "number"]),
        ("r", json!(4), &["lora_A.weight", "shape"]),
        ("lora_alpha", json!(null), &["lora_alpha", "number"]),
        ("lora_alpha", json!(-2), &["lora_alpha", "above 0"]),
        (
            "rank_pattern",
            json!({"(": 2}),
            &["rank_pattern", "pattern"],
        ),
        (
            "rank_pattern",
            json!({"c_fc": 2.5}),
            &["rank_pattern", "pattern"],
        ),
        ("alpha_pattern", json!([1]), &["alpha_pattern", "object"]),
    ] {
        let folder = with_config("gpt2_1", |config| config[key] = value.clone());
        refused(&format!("{key} = {value}"), "gpt2_1", folder.path(), words);
    }
}

#[test]
fn files_that_are_damaged() {
    for (what, file, bytes, words) in [
        ("an empty config", CONFIG, &b""[..], &[CONFIG, "JSON"][..]),
        ("a list", CONFIG, b"[]", &[CONFIG, "object"]),
        (
            "a key twice",
            CONFIG,
            b"{\"peft_type\": \"LORA\", \"r\": 3, \"r\": 4}",
            &[CONFIG, "`r` twice"],
        ),
        ("no bytes", WEIGHTS, b"", &[WEIGHTS, "8 bytes"]),
        (
            "a giant header",
            WEIGHTS,
            b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
            &[WEIGHTS, "header"],
        ),
        (
            "no tensors",
            WEIGHTS,
            b"\x02\0\0\0\0\0\0\0{}",
            &["contains no LoRA factors"],
        ),
    ] {
        let folder = copy("gpt2_1");
        std::fs::write(folder.path().join(file), bytes).unwrap();
        refused(what, "gpt2_1", folder.path(), words);
    }
    for file in [CONFIG, WEIGHTS] {
        let folder = copy("gpt2_1");
        std::fs::remove_file(folder.path().join(file)).unwrap();
        refused(&format!("no {file}"), "gpt2_1", folder.path(), &[file]);
    }
    let folder = copy("gpt2_1");
    let path = folder.path().join(WEIGHTS);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    refused(
        "a truncated file",
        "gpt2_1",
        folder.path(),
        &["truncated or damaged"],
    );
    let mut ruined = bytes.clone();
    let end = ruined.len();
    ruined[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, ruined).unwrap();
    refused(
        "no numbers",
        "gpt2_1",
        folder.path(),
        &["infinite or not numbers"],
    );
}

#[test]
fn tensors_without_a_place() {
    let folder = copy("gpt2_1");
    let path = folder.path().join(WEIGHTS);
    let bytes = std::fs::read(&path).unwrap();
    for (what, old, new, words) in [
        (
            "another module",
            "h.1.mlp.c_fc.lora",
            "h.1.mlp.c_ff.lora",
            &["c_ff", "not a matrix of the model"][..],
        ),
        (
            "a norm",
            "h.1.mlp.c_fc.lora",
            "h.1.ln_2.abc.lora",
            &["not a matrix of the model"],
        ),
        (
            "embeddings",
            "h.1.mlp.c_fc.lora_A.weight",
            "h.1.mlp.c_fc.lora_C.weight",
            &["lora_A.weight", "missing"],
        ),
        (
            "another beginning",
            "base_model.model.transformer.h.1",
            "base_model.madel.transformer.h.1",
            &["base_model.model."],
        ),
    ] {
        let text: Vec<u8> = bytes.clone();
        let at = |text: &[u8], from: usize| {
            let found = text[from..].windows(old.len());
            found
                .enumerate()
                .find(|(_, w)| *w == old.as_bytes())
                .map(|(at, _)| at + from)
        };
        let mut changed = text;
        assert_eq!(old.len(), new.len(), "{what}");
        let mut from = 0;
        while let Some(place) = at(&changed, from) {
            changed[place..place + new.len()].copy_from_slice(new.as_bytes());
            from = place + new.len();
        }
        std::fs::write(&path, changed).unwrap();
        refused(what, "gpt2_1", folder.path(), words);
    }
    std::fs::write(&path, &bytes).unwrap();
    refused(
        "of another model",
        "llama_1",
        folder.path(),
        &["not a matrix of the model"],
    );
    let llama = copy("llama_1");
    refused("of another size", "llama_2", llama.path(), &["shape"]);
}
