//! What the class that transformers 5 reads a folder with makes of its files.

use super::{folder, golden, goldens, hold, read};
use serde_json::json;

/// BERT's class lower-cases unless a file says otherwise, a cased vocabulary as well.
#[test]
fn a_vocabulary_alone_is_read_lower_cased() {
    let Some(dir) = folder(&[("bert_base_cased/vocab.txt", "vocab.txt")], &[]) else {
        return;
    };
    let found = read(dir.path());
    assert!(found.notes[0].contains("lower-cased"), "{:?}", found.notes);
    let ids = |text: &str| found.tokenizer.encode(text).unwrap();
    assert_eq!(ids("Hello Paris"), ids("hello paris"));
}

/// T5's class makes the steps around the pieces of a tokenizer.json anew: a word after a mark has its blank.
#[test]
fn t5_s_class_reads_pieces_alone() {
    let files = [("t5/tokenizer.json", "tokenizer.json")];
    let config = [("config.json", json!({"model_type": "t5"}))];
    let Some(dir) = folder(&files, &config) else {
        return;
    };
    let tokenizer = read(dir.path()).tokenizer;
    hold("t5", &tokenizer, &golden()["vocabularies"]["t5_model"]);
}

/// LLaMA's pieces where no file names a class: transformers puts neither a mark nor a blank before a text.
#[test]
fn llama_s_pieces_alone_are_read_by_no_class() {
    let dir = tempfile::tempdir().unwrap();
    let model = goldens().join("sentencepiece/llama/tokenizer.model");
    std::fs::copy(model, dir.path().join("tokenizer.model")).unwrap();
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    let found = read(dir.path());
    hold(
        "llama_alone",
        &found.tokenizer,
        &golden()["small"]["llama_alone"],
    );
    let told = found.notes.join("; ");
    assert!(
        told.contains("add_bos_token") && told.contains("tokenizer_class"),
        "{told}"
    );
}
