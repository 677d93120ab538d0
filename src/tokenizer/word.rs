//! One token per word: white space separates words, and every line break is the token `<eos>`.
//!
//! Words that are rare, or unseen in training, become `<unk>`, like words that the text itself writes as `<unk>`
//! (WikiText, Merity et al., arXiv:1609.07843). Ids are ordered by frequency, the most frequent word first, as adaptive
//! softmax and adaptive input embeddings require (Grave et al., arXiv:1609.04309). Blanks are not kept: decoding joins
//! words with single spaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{bytes, format, word_counts};
use crate::error::{Error, Result};

/// `kind = "word"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WordConfig {
    /// Tokens in all, the most frequent words; every word of the training text when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocab_size: Option<usize>,
    /// Words that occur less often are `<unk>`.
    pub min_count: u64,
    /// Token that ends a text and separates documents; without it a line break does.
    pub end_of_text: Option<String>,
    /// Further tokens that are never split.
    pub special_tokens: Vec<String>,
}

impl Default for WordConfig {
    fn default() -> Self {
        Self {
            vocab_size: None,
            min_count: 1,
            end_of_text: None,
            special_tokens: Vec::new(),
        }
    }
}

/// The token of a line break.
const LINE: &str = "<eos>";
/// The token of a word that the vocabulary lacks.
const UNKNOWN: &str = "<unk>";

impl WordConfig {
    pub(super) fn names(&self) -> Vec<&str> {
        let all = self.end_of_text.iter().chain(&self.special_tokens);
        all.map(String::as_str).collect()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let end = [("end_of_text", self.end_of_text.as_deref())];
        let mut faults = bytes::special_faults(&end, &self.special_tokens);
        let most = self.names().len() + 2;
        if let Some(size) = self.vocab_size.filter(|size| *size <= most) {
            faults.push(format!(
                "[tokenizer] vocab_size = {size} is too small: {LINE}, {UNKNOWN} and the special tokens are {most}; remove it to keep every word of \
                 the training text"
            ));
        }
        if self.min_count == 0 {
            faults.push(
                "[tokenizer] min_count = 0 has no effect: every word of the vocabulary occurs at least once; remove it"
                    .into(),
            );
        }
        faults
    }

    /// Makes the tokenizer's file: special tokens first, then the words by decreasing frequency, words of equal
    /// frequency in alphabetical order. `<unk>` counts as often as all the words that it stands for.
    pub(super) fn train(&self, texts: &[&str]) -> Result<Value> {
        let mut counts = word_counts::count(texts, &normalizer(), &splitter())?;
        let names = self.names();
        names.iter().for_each(|name| {
            counts.remove(*name);
        });
        let lines = counts.remove(LINE).unwrap_or(0);
        let mut unknown = counts.remove(UNKNOWN).unwrap_or(0);
        let mut words: Vec<(String, u64)> = counts.into_iter().collect();
        words.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let own = [LINE, UNKNOWN].iter().filter(|own| !names.contains(own));
        let room = self.vocab_size.map_or(usize::MAX, |size| {
            size.saturating_sub(names.len() + own.clone().count())
        });
        let frequent = words
            .iter()
            .take_while(|(_, count)| *count >= self.min_count);
        let kept = frequent.count().min(room);
        if kept == 0 {
            return Err(Error::run(format!(
                "no word of the training text occurs min_count = {} times; lower [tokenizer] min_count",
                self.min_count
            )));
        }
        unknown += words.drain(kept..).map(|(_, count)| count).sum::<u64>();
        for own in own {
            let count = if *own == LINE { lines } else { unknown };
            let at = words.partition_point(|w| w.1 > count || w.1 == count && w.0.as_str() < *own);
            words.insert(at, ((*own).to_owned(), count));
        }
        let added = format::specials(names, 0, self.end_of_text.as_deref());
        let mut vocab = serde_json::Map::new();
        let symbols = added.iter().map(|a| &a.content);
        for symbol in symbols.chain(words.iter().map(|(word, _)| word)) {
            vocab.insert(symbol.clone(), json!(vocab.len()));
        }
        Ok(file(&added, vocab))
    }
}

/// Turns a line break into a word of its own.
fn normalizer() -> Value {
    json!({"type": "Replace", "pattern": {"String": "\n"}, "content": format!(" {LINE} ")})
}

/// The token that a file makes of a line break, if it uses the same normalizer as here.
pub(super) fn line_break_token(file: &Value) -> Option<String> {
    (file["normalizer"] == normalizer()).then(|| LINE.to_owned())
}

fn splitter() -> Value {
    json!({"type": "WhitespaceSplit"})
}

fn file(added: &[format::SpecialToken], vocab: serde_json::Map<String, Value>) -> Value {
    let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    // The prefix marks tokens that continue a word. No word begins with a blank, so all words are joined with blanks.
    let joined = json!({"type": "WordPiece", "prefix": " ", "cleanup": false});
    format::file(
        added,
        normalizer(),
        splitter(),
        Value::Null,
        json!({"type": "Sequence", "decoders": [
            replace(json!({"Regex": format!("^{LINE}$")}), "\n"),
            joined,
            {"type": "Fuse"},
            replace(json!({"String": " \n"}), "\n"),
            replace(json!({"String": "\n "}), "\n"),
        ]}),
        json!({"type": "WordLevel", "vocab": vocab, "unk_token": UNKNOWN}),
    )
}
