//! Folders of sentence-transformers: settings are imported and exported, and unsupported ones are reported.

use super::hostile::refused;
use super::ties::{import, with_keys};
use super::{files, fixture, shown};
use crate::binary::output;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the types of a folder's modules.
fn modules(folder: &Path) -> Vec<String> {
    let modules = read(&folder.join("modules.json"));
    let kinds = modules.as_array().unwrap().iter().map(|module| {
        let kind = module["type"].as_str().unwrap();
        kind.rsplit('.').next().unwrap().to_owned()
    });
    kinds.collect()
}

#[test]
fn pooling_and_length_go_in_and_out() {
    for (name, pooling, normalize, way, context) in [
        (
            "bert_sentences",
            "mean",
            true,
            "pooling_mode_mean_tokens",
            Some(12),
        ),
        (
            "roberta_sentences",
            "first",
            false,
            "pooling_mode_cls_token",
            None,
        ),
    ] {
        let work = tempfile::tempdir().unwrap();
        let (run, out) = (work.path().join("run"), work.path().join("out"));
        output(&["import", &shown(&fixture(name)), &shown(&run)]);
        let resolved = fs::read_to_string(run.join("resolved.toml")).unwrap();
        let resolved: toml::Table = resolved.parse().unwrap();
        assert_eq!(
            resolved["task"]["pooling"].as_str(),
            Some(pooling),
            "{name}"
        );
        assert_eq!(
            resolved["task"]["normalize"].as_bool(),
            Some(normalize),
            "{name}"
        );
        if context.is_some() {
            assert_eq!(resolved["data"]["context"].as_integer(), context, "{name}");
        }
        output(&["export", &shown(&run), &shown(&out)]);
        let wanted = modules(&fixture(name));
        assert_eq!(modules(&out), wanted, "{name}");
        assert_eq!(wanted.contains(&"Normalize".to_string()), normalize);
        let settings = read(&out.join("1_Pooling/config.json"));
        let on = settings
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| **value == json!(true));
        assert_eq!(
            on.map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            [way],
            "{name}"
        );
        let class = read(&out.join("config.json"))["architectures"][0].clone();
        assert!(class.as_str().unwrap().ends_with("Model"), "{class}");
    }
}

/// A folder of the library with other content in one file.
fn with(file: &str, content: &Value) -> tempfile::TempDir {
    let folder = files::copy(&fixture("bert_sentences"));
    fs::write(folder.path().join(file), content.to_string()).unwrap();
    folder
}

#[test]
fn other_modules_are_refused_with_what_can_be_had() {
    let module = |kind: &str, path: &str| json!({ "idx": 0, "name": "0", "path": path, "type": format!("a.models.{kind}") });
    let list = |kinds: &[(&str, &str)]| {
        kinds
            .iter()
            .map(|(kind, path)| module(kind, path))
            .collect::<Value>()
    };
    let pooling = ("Pooling", "1_Pooling");
    let settings = "1_Pooling/config.json";
    for (file, content, words) in [
        (
            "modules.json",
            list(&[("Transformer", ""), pooling, ("Dense", "2_Dense")]),
            vec![
                "modules Transformer, Pooling, Dense",
                "followed by Normalize",
            ],
        ),
        (
            "modules.json",
            list(&[("Transformer", "0_Transformer"), pooling]),
            vec!["folder `0_Transformer`"],
        ),
        (
            "modules.json",
            list(&[("Transformer", ""), ("Pooling", "../1_Pooling")]),
            vec!["must be next to this file"],
        ),
        (
            "modules.json",
            list(&[("Transformer", ""), ("Pooling", "")]),
            vec!["must be next to this file"],
        ),
        (
            "modules.json",
            list(&[("Transformer", ""), ("Pooling", "none")]),
            vec!["none/config.json", "is missing"],
        ),
        (
            "modules.json",
            json!({ "a": 1 }),
            vec!["is not a list of modules"],
        ),
        ("modules.json", json!([1, null]), vec!["modules.json"]),
        (
            settings,
            json!({ "pooling_mode": "weightedmean" }),
            vec![
                "uses the pooling weightedmean",
                "cls, mean, lasttoken and max",
            ],
        ),
        (
            settings,
            json!({ "pooling_mode_max_tokens": true, "pooling_mode_cls_token": true }),
            vec!["uses the pooling cls and max"],
        ),
        (
            settings,
            json!({ "pooling_mode": "meen" }),
            vec!["\"meen\"", "mean"],
        ),
        (
            settings,
            json!({ "pooling_mode": 7 }),
            vec!["1_Pooling/config.json"],
        ),
        (settings, json!(3), vec!["is not a JSON object"]),
    ] {
        let folder = with(file, &content);
        refused(&content.to_string(), folder.path(), &words);
    }
    let folder = files::copy(&fixture("bert_sentences"));
    fs::write(folder.path().join("modules.json"), "[{").unwrap();
    refused("cut", folder.path(), &["modules.json", "is not JSON"]);
    for config in ["[]", "7", "\"BertModel\"", "null"] {
        let folder = files::copy(&fixture("bert_sentences"));
        fs::write(folder.path().join("config.json"), config).unwrap();
        refused(config, folder.path(), &["config.json"]);
    }
}

/// A prompt changes how the library encodes a text.
#[test]
fn prompts_are_told() {
    let prompts = json!({ "prompts": { "query": "query: ", "document": "" }, "default_prompt_name": "query" });
    let folder = with("config_sentence_transformers.json", &prompts);
    let work = tempfile::tempdir().unwrap();
    let run = shown(&work.path().join("run"));
    let done = crate::binary::formwork(&["import", &shown(folder.path()), &run])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(
        said.contains("the prompt `query`, \"query: \", is placed before every text"),
        "{said}"
    );
    assert!(!said.contains("`document`"), "{said}");
}

/// In a folder of the library, the class name says nothing about the task, whether it names a head, none, or is missing.
#[test]
fn any_class_is_read_as_its_body() {
    for (name, class) in [
        ("bert_sentences", Value::Null),
        ("bert_sentences", json!("BertModel")),
        ("roformer_body", json!("RoFormerModel")),
        ("roformer_body", json!("RoFormerForMaskedLM")),
        ("roformer_body", Value::Null),
        ("albert_body", json!("AlbertForPreTraining")),
        ("deberta_v2_body", Value::Null),
        ("qwen3_sentences", json!("Qwen3ForCausalLM")),
        ("gpt2_sentences", Value::Null),
    ] {
        let folder = files::copy(&fixture(name));
        for part in ["modules.json", "1_Pooling/config.json"] {
            let there = folder.path().join(part);
            if !there.exists() {
                fs::create_dir_all(there.parent().unwrap()).unwrap();
                fs::copy(fixture("bert_sentences").join(part), there).unwrap();
            }
        }
        let path = folder.path().join("config.json");
        let mut config = read(&path);
        match &class {
            Value::Null => drop(config.as_object_mut().unwrap().remove("architectures")),
            class => config["architectures"] = json!([class]),
        }
        fs::write(&path, config.to_string()).unwrap();
        let work = tempfile::tempdir().unwrap();
        let run = work.path().join("run");
        output(&["import", &shown(folder.path()), &shown(&run)]);
        let resolved = fs::read_to_string(run.join("resolved.toml")).unwrap();
        assert!(
            resolved.contains("kind = \"text_embedding\""),
            "{name} {class}"
        );
    }
    let folder = files::copy(&fixture("t5_1"));
    for part in ["modules.json", "1_Pooling/config.json"] {
        let there = folder.path().join(part);
        fs::create_dir_all(there.parent().unwrap()).unwrap();
        fs::copy(fixture("bert_sentences").join(part), there).unwrap();
    }
    refused("t5", folder.path(), &["T5Model"]);
}

/// The body of a decoder, whose class has no head, gives embeddings as an encoder does.
#[test]
fn a_body_of_a_decoder_gives_vectors() {
    for (name, class, prefix) in [
        ("llama_1", "LlamaModel", "model."),
        ("gpt_neox_1", "GPTNeoXModel", "gpt_neox."),
    ] {
        let folder = files::copy(&fixture(name));
        let tensors = files::read_folder(folder.path());
        let body = tensors
            .iter()
            .filter_map(|(key, numbers)| Some((key.strip_prefix(prefix)?, numbers)));
        let bytes =
            |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
        let body: Vec<(&str, Vec<usize>, Vec<u8>)> = body
            .map(|(key, numbers)| (key, numbers.shape.clone(), bytes(&numbers.values)))
            .collect();
        let views = body.iter().map(|(key, shape, data)| {
            (
                *key,
                TensorView::new(Dtype::F32, shape.clone(), data).unwrap(),
            )
        });
        let weights = folder.path().join("model.safetensors");
        safetensors::serialize_to_file(views, None, &weights).unwrap();
        fs::remove_file(folder.path().join("generation_config.json")).unwrap();
        with_keys(folder.path(), &[("architectures", json!([class]))]);

        let work = tempfile::tempdir().unwrap();
        let (run, out) = (work.path().join("run"), work.path().join("out"));
        let said = import(folder.path(), &run);
        assert!(
            said.contains("has no language model head"),
            "{name}: {said}"
        );
        let resolved = fs::read_to_string(run.join("resolved.toml")).unwrap();
        let resolved: toml::Table = resolved.parse().unwrap();
        assert_eq!(
            resolved["task"]["kind"].as_str(),
            Some("text_embedding"),
            "{name}"
        );
        output(&["export", &shown(&run), &shown(&out)]);
        assert_eq!(
            read(&out.join("config.json"))["architectures"],
            json!([class])
        );
    }
}
