//! Writes a tokenizer as the files from which transformers' `AutoTokenizer` makes the same ids, including special tokens
//! around texts.
//!
//! `tokenizer.json` is our file without the keys that only we read; their content is written to `tokenizer_config.json`
//! and `special_tokens_map.json` as roles. The class is the general `PreTrainedTokenizerFast`, which reads
//! `tokenizer.json` as it is. For some model types, transformers always uses the class in its own table; [`REBUILDS`]
//! lists those that are families here.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::files::fault;
use super::settings::Role;
use crate::error::Result;
use crate::files;
use crate::tokenizer::{Tokenizer, format};

/// Model types for which `AutoTokenizer` of transformers 5 rebuilds rules around the vocabulary, whatever class the
/// folder names. For them, only `PreTrainedTokenizerFast.from_pretrained` reads a tokenizer of another kind correctly.
pub const REBUILDS: [&str; 1] = ["qwen2"];
/// Keys of an added token that only we read.
const OWN_KEYS: [&str; 2] = ["end_of_text", "mark"];

/// The model's requirements on its inputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelInputs {
    /// The maximum input length in tokens.
    pub max_length: Option<usize>,
    /// Whether the model reads segments (BERT's `token_type_ids`).
    pub segments: bool,
    /// Whether the model is an encoder-decoder; the token that its decoder begins with need not begin texts.
    pub pairs: bool,
}

/// Writes `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`; returns their names.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dir: &Path, tokenizer: &Tokenizer, by: ModelInputs) -> Result<Vec<&'static str>> {
    let path = dir.join(super::tokenizer_json::NAME);
    let wrong = |e: serde_json::Error| fault(&path, format!("is not a tokenizer: {e}"));
    let mut file: Value = serde_json::from_slice(tokenizer.json()).map_err(wrong)?;
    for entry in file["added_tokens"].as_array_mut().into_iter().flatten() {
        if let Some(entry) = entry.as_object_mut() {
            entry.retain(|key, _| !OWN_KEYS.contains(&key.as_str()));
        }
    }
    let begin = match by.pairs {
        true => tokenizer.begin_of_pairs(),
        false => tokenizer.0.marks[0],
    };
    let roles = roles(tokenizer, begin, &file);
    let mut config = Map::new();
    config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
    config.extend(roles.clone());
    config.insert("clean_up_tokenization_spaces".into(), json!(false));
    let inputs = match by.segments {
        true => json!(["input_ids", "token_type_ids", "attention_mask"]),
        false => json!(["input_ids", "attention_mask"]),
    };
    config.insert("model_input_names".into(), inputs);
    if let Some(length) = by.max_length {
        config.insert("model_max_length".into(), json!(length));
    }
    for (name, content) in [
        (super::tokenizer_json::NAME, file),
        ("tokenizer_config.json", Value::Object(config)),
        ("special_tokens_map.json", Value::Object(roles)),
    ] {
        files::write(&dir.join(name), &format::to_bytes(&content)?)?;
    }
    Ok(vec![
        super::tokenizer_json::NAME,
        "tokenizer_config.json",
        "special_tokens_map.json",
    ])
}

/// The tokens of roles, by the keys of the roles; `begin` is the token that begins a text.
pub(super) fn roles(tokenizer: &Tokenizer, begin: Option<u32>, file: &Value) -> Map<String, Value> {
    let [_, end, separator, pad, _] = tokenizer.0.marks;
    let frame = tokenizer.frame();
    let model = &file["model"];
    let unknown = match model["unk_token"].as_str() {
        Some(name) => tokenizer.id(name),
        None => model["unk_id"].as_u64().map(|id| id as u32),
    };
    let found = [
        (Role::Bos, begin),
        (Role::Eos, tokenizer.end_of_text().or(end)),
        (Role::Unk, unknown),
        (Role::Sep, frame.map(|frame| frame.end).or(separator)),
        (Role::Pad, pad),
        (Role::Cls, frame.map(|frame| frame.begin)),
        (Role::Mask, tokenizer.mask()),
    ];
    let written = found
        .into_iter()
        .filter_map(|(role, id)| Some((role.key().to_owned(), json!(tokenizer.token(id?)?))));
    written.collect()
}
