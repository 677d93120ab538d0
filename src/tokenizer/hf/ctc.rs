//! Reads and writes `vocab.json` of Wav2Vec2CTCTokenizer: one token per character, `|` in place of each blank, and a padding
//! token that stands for no character.
//!
//! When it decodes, the class also collapses repeated predictions of a model. Here that happens before decoding, so that a
//! doubled letter is kept.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::TokenizerDraft;
use super::files::{Folder, fault, numbered};
use super::settings::{
    AddedToken, Role, SPECIAL_TOKENS, Settings, TOKENIZER_CONFIG, default_roles,
};
use super::write::roles;
use crate::error::Result;
use crate::files;
use crate::tokenizer::{Tokenizer, format};

pub const VOCAB: &str = "vocab.json";
/// The name of the class without `Fast`.
const CLASS: &str = "Wav2Vec2CTCTokenizer";
/// Model types whose folders need not name the class.
const MODELS: [&str; 4] = ["wav2vec2", "hubert", "wavlm", "wav2vec2-conformer"];
/// The character that stands for a blank.
const DELIMITER: &str = "|";
/// The regular expression that splits a text into characters.
const EACH: &str = "[\\s\\S]";

/// Whether a folder has a vocabulary of this class.
pub fn is_ctc(folder: Folder, settings: &Settings) -> bool {
    let model = settings.model_type.as_deref();
    folder.has(VOCAB)
        && match settings.class.as_deref() {
            Some(class) => class == CLASS,
            None => model.is_some_and(|model| MODELS.contains(&model)),
        }
}

/// Reads the vocabulary.
///
/// # Errors
/// If an id is not a number or is given twice, the vocabulary is one of several languages, or texts are converted to capitals.
pub fn read(folder: Folder, settings: &mut Settings) -> Result<TokenizerDraft> {
    let path = folder.path(VOCAB);
    let vocab = folder.object(VOCAB)?.unwrap_or_default();
    if let Some((language, _)) = vocab.iter().find(|(_, value)| value.is_object()) {
        let message = format!(
            "has separate vocabularies for `{language}` and other languages; keep only the vocabulary of one language"
        );
        return Err(fault(&path, message));
    }
    numbered(&path, &vocab)?;
    let said = folder.object(TOKENIZER_CONFIG)?.unwrap_or_default();
    let config = folder.path(TOKENIZER_CONFIG);
    if settings.flag("do_lower_case") == Some(true) {
        let message = "`do_lower_case` = true converts texts to capitals, which is not supported; it must be false";
        return Err(fault(&config, message.to_owned()));
    }
    for (key, usual) in [
        ("word_delimiter_token", DELIMITER),
        ("replace_word_delimiter_char", " "),
    ] {
        let value = said.get(key).filter(|value| !value.is_null());
        if let Some(value) = value.filter(|value| *value != usual && value["content"] != usual) {
            let message = format!("`{key}` = {value} must be \"{usual}\"");
            return Err(fault(&config, message));
        }
    }
    let usual = [
        (Role::Bos, "<s>"),
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
        (Role::Pad, "<pad>"),
    ];
    default_roles(settings, |name| vocab.contains_key(name), &usual);
    let unknown = settings.name(Role::Unk, "<unk>").to_owned();
    let added = settings.roles.iter().filter_map(|(_, token)| {
        let id = vocab.get(&token.content)?.as_u64()?;
        Some((id as u32, AddedToken::special(token.content.clone())))
    });
    Ok(TokenizerDraft {
        normalizer: replace(" ", DELIMITER),
        pre_tokenizer: json!({"type": "Split", "pattern": {"Regex": EACH}, "behavior": "Isolated", "invert": false}),
        post_processor: Value::Null,
        decoder: json!({"type": "Sequence", "decoders": [replace(DELIMITER, " "), {"type": "Fuse"}]}),
        added: added.collect(),
        model: json!({"type": "WordLevel", "vocab": vocab, "unk_token": unknown}),
        notes: Vec::new(),
    })
}

fn replace(from: &str, to: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": from}, "content": to})
}

/// Writes the files of the class; the inner result says why the class cannot represent the tokenizer.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dir: &Path, tokenizer: &Tokenizer) -> Result<std::result::Result<(), String>> {
    let vocab = match characters(tokenizer) {
        Ok(vocab) => vocab,
        Err(why) => return Ok(Err(why)),
    };
    let file: Value = serde_json::from_slice(tokenizer.json()).unwrap_or_default();
    let mut roles = roles(tokenizer, tokenizer.0.marks[0], &file);
    for key in ["bos_token", "eos_token", "unk_token"] {
        // The class would add its own default token to the vocabulary.
        roles.entry(key).or_insert(Value::Null);
    }
    let mut config = Map::new();
    config.insert("tokenizer_class".into(), json!(CLASS));
    config.insert("word_delimiter_token".into(), json!(DELIMITER));
    config.insert("replace_word_delimiter_char".into(), json!(" "));
    config.insert("do_lower_case".into(), json!(false));
    config.insert("clean_up_tokenization_spaces".into(), json!(false));
    config.extend(roles.clone());
    for (name, content) in [
        (VOCAB, Value::Object(vocab)),
        (TOKENIZER_CONFIG, Value::Object(config)),
        (SPECIAL_TOKENS, Value::Object(roles)),
    ] {
        files::write(&dir.join(name), &format::to_bytes(&content)?)?;
    }
    Ok(Ok(()))
}

/// The vocabulary of a character tokenizer, with `|` for the blank.
fn characters(tokenizer: &Tokenizer) -> std::result::Result<Map<String, Value>, String> {
    let mut vocab = Map::new();
    for id in 0..tokenizer.vocab_size() as u32 {
        let token = tokenizer.token(id).unwrap_or_default();
        let single = token.chars().count() == 1;
        if !single && !tokenizer.is_special(id) {
            return Err(format!(
                "the class needs one token per character, but the vocabulary contains `{token}`"
            ));
        }
        let name = match token.as_str() {
            " " => DELIMITER.to_owned(),
            _ => token,
        };
        if vocab.insert(name, json!(id)).is_some() {
            return Err("the class writes a space as `|`, but the vocabulary contains both".into());
        }
    }
    Ok(vocab)
}
