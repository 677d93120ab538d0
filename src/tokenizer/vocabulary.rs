//! A fixed vocabulary of whole words between blanks, for generated texts whose words are known.

use serde_json::{Value, json};

use super::format;

/// Makes the tokenizer's file: special tokens first, then the words, with ids in that order. An unknown word is an
/// error unless `unknown` is one of the special tokens.
pub(super) fn of_words(specials: &[&str], words: &[&str], unknown: &str) -> Value {
    let added = format::specials(specials.iter().copied(), 0, None);
    let mut vocab = serde_json::Map::new();
    for word in specials.iter().chain(words) {
        if !vocab.contains_key(*word) {
            vocab.insert((*word).to_owned(), json!(vocab.len()));
        }
    }
    let find = |name: &str| added.iter().find(|a| a.content == name);
    let frame = match (find("[CLS]"), find("[SEP]")) {
        (Some(cls), Some(sep)) => format::template(Some(cls), sep),
        _ => Value::Null,
    };
    format::file(
        &added,
        Value::Null,
        json!({"type": "WhitespaceSplit"}),
        frame,
        Value::Null,
        json!({"type": "WordLevel", "vocab": vocab, "unk_token": unknown}),
    )
}
