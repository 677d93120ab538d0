//! WordPiece as in BERT: words are split at blanks and punctuation, then into the longest known
//! pieces; `##` marks pieces that continue a word.
//!
//! Schuster and Nakajima, ICASSP 2012; Devlin et al., arXiv:1810.04805. As in the `tokenizers`
//! crate, the pieces are learned by merging frequent pairs, not by likelihood. Blanks are not kept:
//! decoding gives a readable text, not the original one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::merges::{self, MergeSettings};
use super::{bytes, format, word_counts};
use crate::error::{Error, Result};

/// `kind = "wordpiece"`. The special tokens `[PAD] [UNK] [CLS] [SEP] [MASK]` have ids 0 to 4;
/// `[SEP]` ends a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WordpieceConfig {
    /// Tokens in all. A small text may give fewer. Source: Schuster and Nakajima 2012.
    pub vocab_size: usize,
    /// Pairs that occur less often are not joined.
    pub min_frequency: u64,
    /// Convert to lower case and drop accents.
    pub lowercase: bool,
    /// Further tokens that are never split.
    pub special_tokens: Vec<String>,
}

impl Default for WordpieceConfig {
    fn default() -> Self {
        Self {
            vocab_size: 8192,
            min_frequency: 2,
            lowercase: true,
            special_tokens: Vec::new(),
        }
    }
}

pub(super) const SPECIALS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const CONTINUATION: &str = "##";

impl WordpieceConfig {
    pub(super) fn names(&self) -> Vec<&str> {
        let rest = self.special_tokens.iter().map(String::as_str);
        SPECIALS.into_iter().chain(rest).collect()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        bytes::learned_faults(self.vocab_size, &SPECIALS, &self.special_tokens)
    }

    pub(super) fn train(&self, texts: &[&str]) -> Result<Value> {
        let counts = word_counts::count(texts, &normalizer(self.lowercase), &pre_tokenizer())?;
        let names = self.names();
        let learned = merges::learn(
            &counts,
            &MergeSettings {
                vocab_size: self.vocab_size - names.len(),
                min_frequency: self.min_frequency,
                continuation: CONTINUATION,
                alphabet: counts
                    .keys()
                    .flat_map(|w| w.chars())
                    .map(String::from)
                    .collect(),
            },
        );
        let size = names.len() + learned.symbols.len();
        if size > self.vocab_size {
            return Err(Error::run(format!(
                "[tokenizer] vocab_size = {} is too small: the characters of the training text and {} special \
                 tokens need {size}",
                self.vocab_size,
                names.len()
            )));
        }
        let added = format::specials(names, 0, Some("[SEP]"));
        let mut vocab = serde_json::Map::new();
        for symbol in added.iter().map(|a| &a.content).chain(&learned.symbols) {
            if !vocab.contains_key(symbol) {
                vocab.insert(symbol.clone(), json!(vocab.len()));
            }
        }
        Ok(file(&added, vocab, self.lowercase))
    }
}

fn normalizer(lowercase: bool) -> Value {
    json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
           "strip_accents": null, "lowercase": lowercase})
}

fn pre_tokenizer() -> Value {
    json!({"type": "BertPreTokenizer"})
}

/// Makes the file for a vocabulary; it frames a text as `[CLS] … [SEP]` if the vocabulary has both tokens.
pub(super) fn file(
    added: &[format::SpecialToken],
    vocab: serde_json::Map<String, Value>,
    lowercase: bool,
) -> Value {
    let find = |name: &str| added.iter().find(|a| a.content == name);
    let frame = match (find("[CLS]"), find("[SEP]")) {
        (Some(cls), Some(sep)) => format::template(Some(cls), sep),
        _ => Value::Null,
    };
    format::file(
        added,
        normalizer(lowercase),
        pre_tokenizer(),
        frame,
        json!({"type": "WordPiece", "prefix": CONTINUATION, "cleanup": true}),
        json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": CONTINUATION,
               "max_input_chars_per_word": 100, "vocab": vocab}),
    )
}
