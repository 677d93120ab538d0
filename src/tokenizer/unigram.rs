//! Unigram language model over pieces: a word is encoded by its most probable segmentation.
//!
//! Kudo, "Subword regularization", arXiv:1804.10959; learned in `likelihood`. `▁` stands for a
//! blank and begins a word. Nothing is added before the text, so decoding returns the exact text.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{bytes, format, likelihood, word_counts};
use crate::error::{Error, Result};

/// `kind = "unigram"`. The special tokens `<pad> </s> <unk>` have ids 0 to 2, as in T5; `</s>` ends
/// a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UnigramConfig {
    /// Tokens in all. A small text may give fewer. Source: Kudo 2018, section 3.2.
    pub vocab_size: usize,
    /// Further tokens that are never split.
    pub special_tokens: Vec<String>,
}

impl Default for UnigramConfig {
    fn default() -> Self {
        Self {
            vocab_size: 8192,
            special_tokens: Vec::new(),
        }
    }
}

const SPECIALS: [&str; 3] = ["<pad>", "</s>", "<unk>"];
const UNKNOWN: usize = 2;
/// Longer "words" (base64, text without blanks) are learned from in parts, so that their likelihood stays
/// finite.
const LONGEST: usize = 256;

impl UnigramConfig {
    pub(super) fn names(&self) -> Vec<&str> {
        let rest = self.special_tokens.iter().map(String::as_str);
        SPECIALS.into_iter().chain(rest).collect()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        bytes::learned_faults(self.vocab_size, &SPECIALS, &self.special_tokens)
    }

    pub(super) fn train(&self, texts: &[&str]) -> Result<Value> {
        let counts = word_counts::count(texts, &Value::Null, &pre_tokenizer())?;
        let words = parts(counts);
        let names = self.names();
        let alphabet: BTreeSet<char> = words.iter().flat_map(|(word, _)| word.chars()).collect();
        let least = alphabet.len() + names.len();
        if self.vocab_size < least {
            return Err(Error::run(format!(
                "[tokenizer] vocab_size = {} is too small: {} characters of the training text and {} special \
                 tokens need {least}",
                self.vocab_size,
                alphabet.len(),
                names.len()
            )));
        }
        let mut pieces = likelihood::learn(&words, self.vocab_size - names.len());
        pieces.retain(|(piece, _)| !names.contains(&piece.as_str()));
        let added = format::specials(names, 0, Some("</s>"));
        let end = &added[1];
        let vocab: Vec<Value> = added
            .iter()
            .map(|a| json!([a.content, 0.0]))
            .chain(pieces.iter().map(|(piece, score)| json!([piece, score])))
            .collect();
        let mut file = format::file(
            &added,
            Value::Null,
            pre_tokenizer(),
            format::template(None, end),
            metaspace(),
            json!({"type": "Unigram", "unk_id": UNKNOWN, "vocab": vocab, "byte_fallback": false}),
        );
        format::strip_blanks_before_masks(&mut file);
        Ok(file)
    }
}

fn metaspace() -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})
}

/// Splits at line breaks first, so that no piece crosses one; then at blanks.
pub(super) fn pre_tokenizer() -> Value {
    let lines = json!({"type": "Split", "pattern": {"String": "\n"}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [lines, metaspace()]})
}

/// Counted words in sorted order; words that are too long are cut into parts.
fn parts(counts: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    for (word, count) in counts {
        let chars: Vec<char> = word.chars().collect();
        for part in chars.chunks(LONGEST) {
            *parts.entry(part.iter().collect()).or_default() += count;
        }
    }
    parts.into_iter().collect()
}
