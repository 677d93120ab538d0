//! Unigram language model over pieces: the likeliest segmentation of each word, pieces pruned by EM.
//!
//! Kudo, "Subword regularization", arXiv:1804.10959; trained by the `tokenizers` crate. `▁` stands for a blank
//! and begins a word; nothing is put before the text, so the exact text comes back. The crate leaves scores of
//! rare characters in the order of a randomly seeded hash table; they are put in order here, and training runs on
//! one thread, so that the same text gives the same file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};

use super::{bytes, format, words};
use crate::error::{Error, Result};

/// `kind = "unigram"`. The special tokens `<pad> </s> <unk>` have ids 0 to 2, as in T5; `</s>` ends a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnigramConfig {
    /// Tokens in all. A small text may give fewer.
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
/// Longer "words" (base64, no blanks) are learned from in parts: the lattice's sums stay finite.
const LONGEST: usize = 256;

impl UnigramConfig {
    fn names(&self) -> Vec<&str> {
        let rest = self.special_tokens.iter().map(String::as_str);
        SPECIALS.into_iter().chain(rest).collect()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let names = self.names();
        let mut faults = bytes::special_faults(&names);
        if self.vocab_size <= names.len() {
            faults.push(format!(
                "[tokenizer] vocab_size = {} is too small: there are {} special tokens",
                self.vocab_size,
                names.len()
            ));
        }
        faults
    }

    pub(super) fn train(&self, texts: &[&str]) -> Result<Value> {
        let counts = words::count(texts, &Value::Null, &pre_tokenizer())?;
        let sentences = sentences(counts);
        let names = self.names();
        let mut pieces = learn(sentences, self.vocab_size, names.len())?;
        pieces.retain(|(piece, _)| !names.contains(&piece.as_str()));
        let added = format::specials(names, 0, Some("</s>"));
        let end = &added[1];
        let vocab: Vec<Value> = added
            .iter()
            .map(|a| json!([a.content, 0.0]))
            .chain(pieces.iter().map(|(piece, score)| json!([piece, score])))
            .collect();
        Ok(format::file(
            &added,
            Value::Null,
            pre_tokenizer(),
            format::template(None, end),
            metaspace(),
            json!({"type": "Unigram", "unk_id": UNKNOWN, "vocab": vocab, "byte_fallback": false}),
        ))
    }
}

fn metaspace() -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})
}

/// Lines first, so that no piece reaches over a line break; then blanks.
fn pre_tokenizer() -> Value {
    let lines = json!({"type": "Split", "pattern": {"String": "\n"}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [lines, metaspace()]})
}

/// Counted words in sorted order, none too long for the trainer.
fn sentences(counts: BTreeMap<String, u64>) -> Vec<(String, u32)> {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    for (word, count) in counts {
        let chars: Vec<char> = word.chars().filter(|c| *c != '\0').collect();
        for part in chars.chunks(LONGEST) {
            *parts.entry(part.iter().collect()).or_default() += count;
        }
    }
    parts
        .into_iter()
        .map(|(word, count)| (word, u32::try_from(count).unwrap_or(u32::MAX)))
        .collect()
}

/// Pieces with their log-probabilities, the likeliest first.
fn learn(
    sentences: Vec<(String, u32)>,
    vocab_size: usize,
    specials: usize,
) -> Result<Vec<(String, f64)>> {
    let alphabet: std::collections::BTreeSet<char> = sentences
        .iter()
        .flat_map(|(word, _)| word.chars())
        .collect();
    let room = vocab_size - specials;
    if alphabet.len() >= room {
        return Err(Error::run(format!(
            "[tokenizer] vocab_size = {vocab_size} is too small: {} characters of the training text and {specials} \
             special tokens need {}",
            alphabet.len(),
            alphabet.len() + specials + 1
        )));
    }
    let failed = |e: String| Error::run(format!("cannot train the unigram tokenizer: {e}"));
    let trainer = UnigramTrainer::builder()
        .show_progress(false)
        .vocab_size(u32::try_from(room).unwrap_or(u32::MAX))
        .build()
        .map_err(|e| failed(e.to_string()))?;
    let one_thread = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|e| failed(e.to_string()))?;
    let mut model = Unigram::default();
    one_thread
        .install(|| trainer.do_train(sentences, &mut model))
        .map_err(|e| failed(e.to_string()))?;
    let pieces = model
        .iter()
        .filter(|(piece, _)| !piece.is_empty())
        .cloned()
        .collect();
    Ok(in_order(pieces))
}

/// The same pieces with the scores of characters that EM dropped given out in the order of the characters.
///
/// The trainer gives those characters `lowest, lowest + 0.0001, …`, adding up in floating point.
fn in_order(mut pieces: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let lowest = pieces.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let mut penalty = 0.0;
    let given: std::collections::HashSet<u64> = pieces
        .iter()
        .map(|_| {
            let score: f64 = lowest + penalty;
            penalty += 0.0001;
            score.to_bits()
        })
        .collect();
    let rare = |p: &(String, f64)| p.0.chars().count() == 1 && given.contains(&p.1.to_bits());
    let mut scores: Vec<f64> = pieces.iter().filter(|p| rare(p)).map(|p| p.1).collect();
    scores.sort_by(f64::total_cmp);
    pieces.sort_by(|a, b| a.0.cmp(&b.0));
    let mut next = scores.into_iter();
    for piece in &mut pieces {
        if rare(piece) {
            piece.1 = next.next().unwrap_or(piece.1);
        }
    }
    // Stable: equal scores stay in the order of the pieces.
    pieces.sort_by(|a, b| b.1.total_cmp(&a.1));
    pieces
}
