//! The Hugging Face `tokenizers` JSON format: the parts that several kinds of tokenizer write, and the
//! parts that are read.
//!
//! There is one extension, which other readers ignore: an entry of `added_tokens` may have `"end_of_text":
//! true`.

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Names of end-of-text tokens in published tokenizers, the most probable first.
const END_OF_TEXT_NAMES: &[&str] = &[
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "[EOS]",
    "[SEP]",
];

/// A special token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialToken {
    /// The token's id.
    pub id: u32,
    /// The token as written in a text.
    pub content: String,
    /// Whether the token is marked as the end of a text.
    pub end_of_text: bool,
}

/// Assembles a whole file from its variable parts.
pub fn file(
    added: &[SpecialToken],
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: Value,
) -> Value {
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.iter().map(entry).collect::<Vec<_>>(),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": decoder,
        "model": model,
    })
}

/// Names of the mask token.
pub const MASKS: [&str; 2] = ["[MASK]", "<mask>"];

/// Sets `lstrip` of mask tokens in a vocabulary whose tokens include the blank before a word: a mask replaces a token
/// together with its blank, so the blank before a written mask belongs to it (as in RoBERTa's tokenizer).
pub fn strip_blanks_before_masks(file: &mut Value) {
    let entries = file["added_tokens"].as_array_mut();
    for entry in entries.into_iter().flatten() {
        if MASKS.iter().any(|name| entry["content"] == *name) {
            entry["lstrip"] = Value::Bool(true);
        }
    }
}

/// Makes a special token's entry in `added_tokens`.
pub fn entry(token: &SpecialToken) -> Value {
    let mut entry = json!({
        "id": token.id,
        "content": token.content,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": false,
        "special": true,
    });
    if token.end_of_text {
        entry["end_of_text"] = Value::Bool(true);
    }
    entry
}

/// Makes special tokens with consecutive ids from `first`; the one named `end` ends a text.
pub fn specials<'a>(
    names: impl IntoIterator<Item = &'a str>,
    first: usize,
    end: Option<&str>,
) -> Vec<SpecialToken> {
    let mut added: Vec<SpecialToken> = Vec::new();
    for name in names {
        if added.iter().all(|a| a.content != name) {
            added.push(SpecialToken {
                id: (first + added.len()) as u32,
                content: name.to_owned(),
                end_of_text: end == Some(name),
            });
        }
    }
    added
}

/// Reads the special tokens that a file lists.
pub fn added_tokens(file: &Value) -> Vec<SpecialToken> {
    let entries = file["added_tokens"].as_array();
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            Some(SpecialToken {
                id: u32::try_from(entry["id"].as_u64()?).ok()?,
                content: entry["content"].as_str()?.to_owned(),
                end_of_text: entry["end_of_text"].as_bool().unwrap_or(false),
            })
        })
        .collect()
}

/// Finds the end-of-text token: the marked one, else the first of the well-known names that is a special
/// token.
pub fn end_of_text(added: &[SpecialToken], id: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    added
        .iter()
        .find(|a| a.end_of_text)
        .map(|a| a.content.as_str())
        .or_else(|| {
            END_OF_TEXT_NAMES
                .iter()
                .find(|name| added.iter().any(|a| a.content == **name))
                .copied()
        })
        .and_then(id)
}

/// The printable character that stands for a byte in byte-level vocabularies (GPT-2): bytes that
/// print in Latin-1 stand for themselves, the other 68 are numbered from U+0100.
pub fn byte_char(byte: u8) -> char {
    let prints = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if prints(byte) {
        char::from(byte)
    } else {
        let hidden = (0..byte).filter(|b| !prints(*b)).count() as u32;
        char::from_u32(0x100 + hidden).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

/// A `ByteLevel` component with GPT-2's byte mapping and, if `words`, its splitting into words.
pub fn byte_level(words: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": words})
}

/// The template `before text after` for a single text, and its extension to a pair.
pub fn template(before: Option<&SpecialToken>, after: &SpecialToken) -> Value {
    let special =
        |t: &SpecialToken, kind: usize| json!({"SpecialToken": {"id": t.content, "type_id": kind}});
    let sequence = |id: &str, kind: usize| json!({"Sequence": {"id": id, "type_id": kind}});
    let mut single: Vec<Value> = before.iter().map(|t| special(t, 0)).collect();
    single.extend([sequence("A", 0), special(after, 0)]);
    let mut pair = single.clone();
    pair.extend([sequence("B", 1), special(after, 1)]);
    let tokens: serde_json::Map<String, Value> = before
        .into_iter()
        .chain([after])
        .map(|t| {
            (
                t.content.clone(),
                json!({"id": t.content, "ids": [t.id], "tokens": [t.content]}),
            )
        })
        .collect();
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
}

/// Whether a post-processor only puts tokens around a text, or does nothing.
pub fn is_template(post_processor: &Value) -> bool {
    post_processor.is_null() || post_processor["type"] == "TemplateProcessing"
}

/// Serialises a file.
///
/// # Errors
/// If JSON cannot represent a value.
pub fn to_bytes(file: &Value) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(file)
        .map_err(|e| Error::run(format!("cannot write the tokenizer: {e}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Splits a text into plain segments and special tokens. The leftmost special token wins, then the
/// longest.
pub struct Specials {
    /// Byte strings and ids of the special tokens, longest first.
    tokens: Vec<(Vec<u8>, u32)>,
    first: [bool; 256],
}

impl Specials {
    /// Makes a splitter that looks for these tokens.
    pub fn new<'a>(added: impl IntoIterator<Item = &'a SpecialToken>) -> Self {
        let mut tokens: Vec<(Vec<u8>, u32)> = added
            .into_iter()
            .filter(|a| !a.content.is_empty())
            .map(|a| (a.content.clone().into_bytes(), a.id))
            .collect();
        tokens.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        let mut first = [false; 256];
        for (token, _) in &tokens {
            first[token[0] as usize] = true;
        }
        Self { tokens, first }
    }

    /// Calls `each` with every stretch of ordinary text and every special token, in
    /// order.
    pub fn split<'a, E>(
        &self,
        text: &'a [u8],
        mut each: impl FnMut(Segment<'a>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut from = 0;
        let mut at = 0;
        while !self.tokens.is_empty() && at < text.len() {
            let found = self.first[text[at] as usize]
                .then(|| self.tokens.iter().find(|(t, _)| text[at..].starts_with(t)))
                .flatten();
            match found {
                Some((token, id)) => {
                    if from < at {
                        each(Segment::Plain(&text[from..at]))?;
                    }
                    each(Segment::Special(*id))?;
                    at += token.len();
                    from = at;
                }
                None => at += 1,
            }
        }
        if from < text.len() {
            each(Segment::Plain(&text[from..]))?;
        }
        Ok(())
    }
}

/// A part of a text.
pub enum Segment<'a> {
    /// Ordinary text.
    Plain(&'a [u8]),
    /// A special token.
    Special(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_256_different_characters() {
        let all: std::collections::BTreeSet<char> = (0..=255).map(byte_char).collect();
        assert_eq!(all.len(), 256);
        assert_eq!(byte_char(b' '), 'Ġ');
        assert_eq!(byte_char(b'\n'), 'Ċ');
        assert_eq!(byte_char(0xAD), 'Ń');
    }
}
