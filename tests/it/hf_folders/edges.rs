//! Texts are framed by the special tokens of the tokenizer's file, on one side only, too; expected values are those of
//! transformers 5.24 for the same ids.

use super::ties::import;
use super::{files, fixture, shown};
use crate::binary::output;
use formwork::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A tokenizer of words in which ids 1 and 2 have special names, with a template that puts them before and behind a text.
fn tokenizer(begin: &str, before: bool, behind: bool) -> Value {
    let name = |id: u32| match id {
        1 => begin.to_owned(),
        2 => "</s>".to_owned(),
        id => format!("w{id}"),
    };
    let vocab: serde_json::Map<String, Value> = (0..37).map(|id| (name(id), json!(id))).collect();
    let token = |id: u32| json!({"SpecialToken": {"id": name(id), "type_id": 0}});
    let around = |text: &str| {
        let text = json!({"Sequence": {"id": text, "type_id": 0}});
        let parts = [
            before.then(|| token(1)),
            Some(text),
            behind.then(|| token(2)),
        ];
        parts.into_iter().flatten().collect::<Vec<Value>>()
    };
    let specials: serde_json::Map<String, Value> = [1, 2]
        .into_iter()
        .map(|id| {
            let token = json!({"id": name(id), "ids": [id], "tokens": [name(id)]});
            (name(id), token)
        })
        .collect();
    let pair = [around("A"), around("B")].concat();
    let template = json!({
        "type": "TemplateProcessing", "single": around("A"), "pair": pair,
        "special_tokens": specials,
    });
    let added = [1, 2].map(|id| {
        json!({"id": id, "content": name(id), "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
               "special": true})
    });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": if before || behind { template } else { Value::Null },
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w36"},
    })
}

/// Imports a fixture with a tokenizer.
fn imported(name: &str, tokenizer: &Value, work: &Path) -> PathBuf {
    let folder = files::copy(&fixture(name));
    fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let run = tempfile::Builder::new().tempdir_in(work).unwrap().keep();
    fs::remove_dir(&run).unwrap();
    import(folder.path(), &run);
    run
}

/// Returns the class probabilities in order.
fn classified(run: &Path, more: &[&str]) -> Vec<f64> {
    let run = shown(run);
    let words = ["classify", &run, "--text", "w3 w4 w5", "--json"];
    let line: Value = serde_json::from_str(output(&[&words, more].concat()).trim()).unwrap();
    let classes = line["classes"].as_array().unwrap();
    let of = |name: &str| {
        let found = classes.iter().find(|class| class["class"] == name);
        found.unwrap()["probability"].as_f64().unwrap()
    };
    ["good", "bad", "neither"].map(of).to_vec()
}

fn assert_near(ours: &[f64], theirs: [f64; 3], what: &str) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours - theirs).abs() < 2e-4, "{what}: {ours} {theirs}");
    }
}

#[test]
fn classes_are_those_of_the_text_in_its_template() {
    let work = tempfile::tempdir().unwrap();
    for (what, before, behind, theirs) in [
        ("begun", true, false, [0.5110, 0.3622, 0.1269]),
        ("ended", false, true, [0.6759, 0.1635, 0.1605]),
        ("both", true, true, [0.5641, 0.3428, 0.0931]),
        // Without a template, the vocabulary's token names determine the frame.
        ("neither", false, false, [0.5641, 0.3428, 0.0931]),
    ] {
        let tokenizer = tokenizer("<s>", before, behind);
        let run = imported("llama_classes", &tokenizer, work.path());
        assert_near(&classified(&run, &[]), theirs, what);
        if what == "begun" {
            let pair = classified(&run, &["--pair", "w6"]);
            assert_near(&pair, [0.3506, 0.5975, 0.0519], "a pair");
        }
    }
    // Neither a template nor a token name determines a frame.
    let bare = tokenizer("<begin>", false, false);
    let run = imported("llama_classes", &bare, work.path());
    assert_near(&classified(&run, &[]), [0.7318, 0.1322, 0.1360], "bare");
}

#[test]
fn vectors_are_those_of_the_text_in_its_template() {
    let work = tempfile::tempdir().unwrap();
    let encoded = |behind: bool, text: &str| {
        let tokenizer = tokenizer("<begin>", false, behind);
        let run = imported("qwen3_sentences", &tokenizer, work.path());
        let (lines, out) = (work.path().join("lines.txt"), work.path().join("out.npy"));
        fs::write(&lines, text).unwrap();
        output(&[
            "encode",
            &shown(&run),
            &shown(&lines),
            "--out",
            &shown(&out),
        ]);
        fs::read(&out).unwrap()
    };
    let ended = encoded(true, "w3 w4 w5\n");
    assert!(ended == encoded(false, "w3 w4 w5 </s>\n"));
    assert!(ended != encoded(false, "w3 w4 w5\n"));
}

#[test]
fn a_prompt_stands_behind_the_token_that_begins_texts() {
    let work = tempfile::tempdir().unwrap();
    let continued = |run: &Path, prompt: &str| {
        let run = shown(run);
        let words = [
            "generate",
            &run,
            "--prompt",
            prompt,
            "--tokens",
            "8",
            "--temperature",
            "0",
            "--json",
        ];
        let line: Value = serde_json::from_str(output(&words).trim()).unwrap();
        line["text"].as_str().unwrap().trim().to_owned()
    };
    let begun = imported("llama_1", &tokenizer("<s>", true, false), work.path());
    let theirs = ["w20"; 8].join(" ");
    assert_eq!(continued(&begun, "w3 w4 w5"), theirs);
    assert_eq!(continued(&begun, "<s> w3 w4 w5"), theirs);
    let bare = imported("llama_1", &tokenizer("<s>", false, false), work.path());
    assert_eq!(continued(&bare, "<s> w3 w4 w5"), theirs);
    assert_ne!(continued(&bare, "w3 w4 w5"), theirs);
    let ended = imported("llama_1", &tokenizer("<s>", false, true), work.path());
    assert_eq!(continued(&ended, "w3 w4 w5"), continued(&bare, "w3 w4 w5"));
}

#[test]
fn a_template_of_texts_and_tokens_that_are_not_there_is_refused() {
    for (part, why) in [
        (
            json!({"Sequence": {"id": "B", "type_id": 0}}),
            "has no text `B`",
        ),
        (
            json!({"SpecialToken": {"id": "<x>", "type_id": 0}}),
            "has the token `<x>`, which is not in its `special_tokens`",
        ),
    ] {
        let mut file = tokenizer("<s>", true, false);
        file["post_processor"]["single"] = json!([part]);
        let path = Path::new("tokenizer.json");
        let read = Tokenizer::from_json(file.to_string().into_bytes(), path);
        let said = read.unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}
