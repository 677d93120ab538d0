//! A tokenizer that was trained elsewhere: `tokenizer.json`, GPT-2's two files, or BERT's
//! `vocab.txt`.
//!
//! `tokenizer.json` is kept byte for byte; the other two are converted to the same format. SentencePiece models, other kinds
//! of folders, and those with settings for reading the vocabulary (`tokenizer_config.json`) are handled by [`hf`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::format::{self, SpecialToken};
use super::{Tokenizer, bpe, hf, wordpiece};
use crate::error::{Error, Result};
use crate::files;

/// The files of which a folder has one, or two that belong together.
pub const PRETRAINED_FILES: &str = "tokenizer.json, vocab.json + merges.txt, encoder.json + vocab.bpe, vocab.txt, \
                                    spiece.model, tokenizer.model, spm.model, sentencepiece.bpe.model";

/// `kind = "pretrained"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PretrainedConfig {
    /// `tokenizer.json`, a SentencePiece model (`.model` or `.spm`) or `vocab.txt`, or a folder with one of them, or with
    /// `vocab.json` and `merges.txt` (also as `encoder.json` and `vocab.bpe`).
    pub path: PathBuf,
    /// For `vocab.txt`: convert to lower case and drop accents. By default as a `tokenizer_config.json` beside it says; without
    /// one, true if no token has a capital letter.
    pub lowercase: Option<bool>,
    /// Token that ends a text, if it has none of the usual names (`<|endoftext|>`, `</s>`, `[SEP]` …).
    pub end_of_text: Option<String>,
}

impl PretrainedConfig {
    pub(super) fn faults(&self) -> Vec<String> {
        if self.path.as_os_str().is_empty() {
            vec![
                "[tokenizer] kind = \"pretrained\" needs `path`: a tokenizer.json or its folder"
                    .into(),
            ]
        } else {
            Vec::new()
        }
    }

    /// Builds the tokenizer, with its notes for the user.
    pub(super) fn build(&self) -> Result<Tokenizer> {
        let Some((json, notes)) = self.found()? else {
            return Err(Error::usage(format!(
                "[tokenizer] {} has none of {PRETRAINED_FILES}",
                self.path.display()
            )));
        };
        let json = match &self.end_of_text {
            Some(name) => with_end_of_text(&json, name, &self.path)?,
            None => json,
        };
        Ok(Tokenizer::from_json(json, &self.path)?.with_notes(notes))
    }

    /// The bytes of the tokenizer's file, and notes on how it was read; `None` if the folder has no known file.
    fn found(&self) -> Result<Option<(Vec<u8>, Vec<String>)>> {
        let file = |name: &str| self.path.join(name);
        let alone = |json: Vec<u8>| Ok(Some((json, Vec::new())));
        if self.path.is_file() {
            let ending = self.path.extension().and_then(|ending| ending.to_str());
            return match ending {
                Some("txt") => alone(format::to_bytes(&self.bert(&self.path)?)?),
                Some("model" | "spm") => {
                    let (tokenizer, notes) = hf::read_model(&self.path)?;
                    Ok(Some((tokenizer.json().to_vec(), notes)))
                }
                _ => alone(files::read(&self.path)?),
            };
        }
        if file("tokenizer.json").is_file() {
            return alone(files::read(&file("tokenizer.json"))?);
        }
        if self.lowercase.is_none() && hf::has_settings(&self.path) {
            return self.of_hugging_face();
        }
        for (vocab, merges) in [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")] {
            if file(vocab).is_file() && file(merges).is_file() {
                return alone(format::to_bytes(&gpt2(&file(vocab), &file(merges))?)?);
            }
        }
        if file("vocab.txt").is_file() {
            return alone(format::to_bytes(&self.bert(&file("vocab.txt"))?)?);
        }
        // Without the files above, the folder holds a SentencePiece model or no tokenizer.
        self.of_hugging_face()
    }

    fn of_hugging_face(&self) -> Result<Option<(Vec<u8>, Vec<String>)>> {
        let found = hf::read(&self.path)?;
        Ok(found.map(|found| (found.tokenizer.json().to_vec(), found.notes)))
    }

    fn bert(&self, path: &Path) -> Result<Value> {
        let text = text(path)?;
        let mut vocab = Map::new();
        for (id, line) in text.lines().enumerate() {
            if vocab.insert(line.to_owned(), json!(id)).is_some() {
                return Err(Error::run(format!(
                    "{}:{}: the token `{line}` occurs twice",
                    path.display(),
                    id + 1
                )));
            }
        }
        if !vocab.contains_key("[UNK]") {
            return Err(Error::run(format!(
                "{} is not a WordPiece vocabulary: it has no [UNK]",
                path.display()
            )));
        }
        let special = |token: &str| token.starts_with('[') && token.ends_with(']');
        let capitals = vocab
            .keys()
            .any(|t| !special(t) && t.contains(|c: char| c.is_ascii_uppercase()));
        let added = present(&vocab, &wordpiece::SPECIALS, "[SEP]");
        Ok(wordpiece::file(
            &added,
            vocab,
            self.lowercase.unwrap_or(!capitals),
        ))
    }
}

impl Tokenizer {
    /// Reads the tokenizer in a file or folder as the kind `pretrained` does; `None` if a folder has none of
    /// [`PRETRAINED_FILES`].
    ///
    /// # Errors
    /// If a file cannot be read or is not a tokenizer.
    pub fn pretrained(path: &Path) -> Result<Option<Self>> {
        let config = PretrainedConfig {
            path: path.to_path_buf(),
            ..PretrainedConfig::default()
        };
        match config.found()? {
            Some((json, notes)) => Ok(Some(Self::from_json(json, path)?.with_notes(notes))),
            None => Ok(None),
        }
    }

    /// Notes on the files that the tokenizer was read from: cases in which its ids can differ from those of other
    /// implementations.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// Sets the notes; does nothing if the tokenizer is already shared.
    pub(super) fn with_notes(mut self, notes: Vec<String>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.notes = notes;
        }
        self
    }
}

fn text(path: &Path) -> Result<String> {
    let bytes = files::read(path)?;
    files::refuse_utf16(path.display(), &bytes)?;
    let utf8 = String::from_utf8(bytes);
    utf8.map_err(|e| Error::usage(format!("{} is not UTF-8 text: {e}", path.display())))
}

fn gpt2(vocab_path: &Path, merges_path: &Path) -> Result<Value> {
    let text = files::read(vocab_path)?;
    let vocab: Map<String, Value> = serde_json::from_slice(&text)
        .map_err(|e| Error::run(format!("{} is not a vocabulary: {e}", vocab_path.display())))?;
    let text = self::text(merges_path)?;
    let merges: Vec<String> = text
        .lines()
        .enumerate()
        .filter(|(number, line)| {
            !(line.trim().is_empty() || *number == 0 && line.starts_with("#version"))
        })
        .map(|(_, line)| line.to_owned())
        .collect();
    // RoBERTa's files have the same format.
    let roberta = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
    let (names, end): (&[&str], _) = if vocab.contains_key("<mask>") {
        (&roberta, "</s>")
    } else {
        (&["<|endoftext|>"], "<|endoftext|>")
    };
    let added = present(&vocab, names, end);
    Ok(bpe::file(&added, vocab, &merges))
}

/// The special tokens among `names` that the vocabulary has, by id; the one named `end` ends a text.
fn present(vocab: &Map<String, Value>, names: &[&str], end: &str) -> Vec<SpecialToken> {
    let mut added: Vec<SpecialToken> = names
        .iter()
        .filter_map(|name| {
            Some(SpecialToken {
                id: u32::try_from(vocab.get(*name)?.as_u64()?).ok()?,
                content: (*name).to_owned(),
                end_of_text: *name == end,
            })
        })
        .collect();
    added.sort_by_key(|a| a.id);
    added
}

/// Marks the token `name` as the end of a text in a tokenizer's file.
fn with_end_of_text(json: &[u8], name: &str, path: &Path) -> Result<Vec<u8>> {
    let bad = |why: String| Error::run(format!("{} is not a tokenizer: {why}", path.display()));
    let mut file: Value = serde_json::from_slice(json).map_err(|e| bad(e.to_string()))?;
    let library = tokenizers::Tokenizer::from_bytes(json).map_err(|e| bad(e.to_string()))?;
    let Some(id) = library.token_to_id(name) else {
        return Err(Error::usage(format!(
            "[tokenizer] end_of_text = `{name}` is not a token of {}",
            path.display()
        )));
    };
    let Some(entries) = file["added_tokens"].as_array_mut() else {
        return Err(bad("it has no list `added_tokens`".into()));
    };
    let token = SpecialToken {
        id,
        content: name.to_owned(),
        end_of_text: true,
    };
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        entry.remove("end_of_text");
    }
    match entries.iter_mut().find(|e| e["content"] == name) {
        Some(entry) => entry["end_of_text"] = Value::Bool(true),
        None => entries.push(format::entry(&token)),
    }
    format::to_bytes(&file)
}
