//! Reads `vocab.txt`: BERT's WordPiece, one token per line.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::TokenizerDraft;
use super::family::Family;
use super::files::{Folder, fault};
use super::frame;
use super::settings::{AddedToken, Role, Settings};
use crate::error::{Error, Fault, Result};

/// The vocabulary file.
pub const VOCAB: &str = "vocab.txt";
/// Maximum word length in characters; longer words are unknown, as in BERT's code.
const LONGEST_WORD: usize = 100;

/// Reads the folder's vocab.txt.
///
/// # Errors
/// If the vocabulary has a token twice, or lacks a token that BERT needs.
pub fn read(folder: Folder, family: Family, settings: &mut Settings) -> Result<TokenizerDraft> {
    let path = folder.path(VOCAB);
    let text = folder.text(VOCAB)?;
    let mut lines: HashMap<&str, usize> = HashMap::new();
    let mut vocab = Map::new();
    for (id, token) in text.lines().enumerate() {
        if let Some(first) = lines.insert(token, id) {
            let message = format!("the token `{token}` is already at line {}", first + 1);
            return Err(Error::Invalid(vec![Fault::at(&path, id + 1, message)]));
        }
        vocab.insert(token.to_owned(), json!(id));
    }
    for (role, name) in [
        (Role::Pad, "[PAD]"),
        (Role::Unk, "[UNK]"),
        (Role::Cls, "[CLS]"),
        (Role::Sep, "[SEP]"),
        (Role::Mask, "[MASK]"),
    ] {
        if vocab.contains_key(name) {
            settings.default_role(role, AddedToken::special(name));
        }
    }
    let unknown = settings.name(Role::Unk, "[UNK]").to_owned();
    if !vocab.contains_key(&unknown) {
        let message = format!(
            "is not a WordPiece vocabulary: it has no `{unknown}`, the token for unknown words"
        );
        return Err(fault(&path, message));
    }
    let mut notes = Vec::new();
    let lowercase = settings.flag("do_lower_case").unwrap_or_else(|| {
        if has_capitals(&vocab) {
            notes.push(format!(
                "{VOCAB} contains capital letters, but no file sets `do_lower_case`: texts are lower-cased, as in transformers 5; set \
                 \"do_lower_case\": false in tokenizer_config.json to keep the case"
            ));
        }
        true
    });
    let chinese = match family {
        Family::RoFormer => {
            notes.push(
                "RoFormer splits Chinese text with the dictionary of jieba, which is not supported: Chinese text gets different ids"
                    .into(),
            );
            false
        }
        _ => settings.flag("tokenize_chinese_chars").unwrap_or(true),
    };
    let id = |name: &str| Some(vocab.get(name)?.as_u64()? as u32);
    let (cls, sep) = (
        settings.name(Role::Cls, "[CLS]"),
        settings.name(Role::Sep, "[SEP]"),
    );
    let post_processor = match (id(cls), id(sep)) {
        (Some(cls_id), Some(sep_id)) => frame::bert((cls, cls_id), (sep, sep_id)),
        _ => Value::Null,
    };
    Ok(TokenizerDraft {
        normalizer: json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": chinese,
                           "strip_accents": settings.flag("strip_accents"), "lowercase": lowercase}),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor,
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        model: json!({"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": LONGEST_WORD, "vocab": vocab}),
        added: Vec::new(),
        notes,
    })
}

/// Whether a token has a capital letter; special tokens do not count.
fn has_capitals(vocab: &Map<String, Value>) -> bool {
    let mark = |token: &str| token.starts_with('[') && token.ends_with(']');
    let mut plain = vocab.keys().filter(|token| !mark(token));
    plain.any(|token| token.contains(|c: char| c.is_ascii_uppercase()))
}
