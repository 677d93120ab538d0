//! What the class that transformers 5 reads a folder with makes of its files.

use super::{folder, golden, hold, read};
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
