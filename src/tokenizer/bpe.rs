//! Byte-level byte-pair encoding: no input is unknown, and decoding returns the exact text.
//!
//! Words are split by GPT-2's rule, written as 256 printable characters (one per byte) and joined
//! by learned merges. Sennrich et al., arXiv:1508.07909; Radford et al., "Language models are
//! unsupervised multitask learners", 2019. Ids are ordered: bytes, merges, special tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::merges::{self, MergeSettings};
use super::{bytes, format, word_counts};
use crate::error::Result;

/// `kind = "bpe"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BpeConfig {
    /// Tokens in all: 256 bytes, merges and special tokens. A small text may give fewer.
    /// Source: Sennrich et al. 2016, section 3.2.
    pub vocab_size: usize,
    /// Pairs that occur less often are not joined.
    pub min_frequency: u64,
    /// Token that ends a text and separates documents.
    pub end_of_text: String,
    /// Further tokens that are never split.
    pub special_tokens: Vec<String>,
}

impl Default for BpeConfig {
    fn default() -> Self {
        Self {
            vocab_size: 8192,
            min_frequency: 2,
            end_of_text: "<|endoftext|>".into(),
            special_tokens: Vec::new(),
        }
    }
}

impl BpeConfig {
    pub(super) fn names(&self) -> Vec<&str> {
        let rest = self.special_tokens.iter().map(String::as_str);
        std::iter::once(self.end_of_text.as_str())
            .chain(rest)
            .collect()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let names = self.names();
        let end = [("end_of_text", Some(self.end_of_text.as_str()))];
        let mut faults = bytes::special_faults(&end, &self.special_tokens);
        let least = 256 + names.len();
        if self.vocab_size < least {
            faults.push(format!(
                "[tokenizer] vocab_size = {} is too small: 256 bytes and {} special tokens need {least}",
                self.vocab_size,
                names.len()
            ));
        }
        faults
    }

    pub(super) fn train(&self, texts: &[&str]) -> Result<Value> {
        let rules = format::byte_level(true);
        let counts = word_counts::count(texts, &Value::Null, &rules)?;
        let names = self.names();
        let learned = merges::learn(
            &counts,
            &MergeSettings {
                vocab_size: self.vocab_size - names.len(),
                min_frequency: self.min_frequency,
                continuation: "",
                alphabet: (0..=255)
                    .map(|b| format::byte_char(b).to_string())
                    .collect(),
            },
        );
        let added = format::specials(names, learned.symbols.len(), Some(&self.end_of_text));
        let mut vocab = serde_json::Map::new();
        for symbol in learned.symbols {
            vocab.insert(symbol, json!(vocab.len()));
        }
        let merges: Vec<String> = learned
            .merges
            .iter()
            .map(|(a, b)| format!("{a} {b}"))
            .collect();
        Ok(file(&added, vocab, &merges))
    }
}

/// Makes the file of a byte-level BPE tokenizer; special tokens also get their ids in the vocabulary.
pub(super) fn file(
    added: &[format::SpecialToken],
    mut vocab: serde_json::Map<String, Value>,
    merges: &[String],
) -> Value {
    for token in added {
        vocab.insert(token.content.clone(), json!(token.id));
    }
    let mut file = format::file(
        added,
        Value::Null,
        format::byte_level(true),
        Value::Null,
        format::byte_level(true),
        json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
               "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
               "vocab": vocab, "merges": merges}),
    );
    format::strip_blanks_before_masks(&mut file);
    file
}
