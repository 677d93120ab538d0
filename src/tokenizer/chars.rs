//! One token per character (Unicode scalar value), with ids in the order of the characters.
//!
//! Vocabulary: the characters of the training text, sorted, then the unknown token, the end-of-text token
//! and other special tokens, if configured. Karpathy, char-rnn (2015).

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::format::{self, Segment, SpecialToken, Specials};
use crate::error::{Error, Result};

/// `kind = "char"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CharConfig {
    /// Token for characters that the training text lacks; without it such a character is an error.
    pub unknown: Option<String>,
    /// Token that ends a text and separates documents.
    pub end_of_text: Option<String>,
    /// Further tokens that are never split.
    pub special_tokens: Vec<String>,
}

/// The splitting rule in the file that makes every character a token of its own.
const EACH: &str = "[\\s\\S]";
/// The file format requires a name; a tokenizer without this token fails on unknown characters, as it should.
const NO_UNKNOWN: &str = "<unk>";

impl CharConfig {
    pub(super) fn faults(&self) -> Vec<String> {
        let single = [
            ("unknown", self.unknown.as_deref()),
            ("end_of_text", self.end_of_text.as_deref()),
        ];
        super::bytes::special_faults(&single, &self.special_tokens)
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let options = self.unknown.iter().chain(&self.end_of_text);
        options
            .chain(&self.special_tokens)
            .map(String::as_str)
            .collect()
    }

    /// Makes the tokenizer's file for the characters of `texts`. A special token that is one of these characters
    /// (a line break that ends a name) keeps its id; the other special tokens follow.
    pub(super) fn train(&self, texts: &[&str]) -> Value {
        let alphabet: BTreeSet<char> = texts.iter().flat_map(|t| t.chars()).collect();
        let alphabet: Vec<char> = alphabet.into_iter().collect();
        let place = |name: &str| {
            alphabet
                .iter()
                .position(|c| c.encode_utf8(&mut [0; 4]) == name)
        };
        let (inside, after): (Vec<&str>, Vec<&str>) = self
            .names()
            .into_iter()
            .partition(|name| place(name).is_some());
        let end = self.end_of_text.as_deref();
        let mut added: Vec<SpecialToken> = inside
            .into_iter()
            .map(|name| SpecialToken {
                id: place(name).unwrap_or_default() as u32,
                content: name.to_owned(),
                end_of_text: end == Some(name),
            })
            .collect();
        added.extend(format::specials(after, alphabet.len(), end));
        added.sort_by_key(|token| token.id);
        write(alphabet, &added, self.unknown.as_deref())
    }
}

/// Makes the file for a fixed alphabet, in the order given; `end`, one of its characters, ends a text.
pub(super) fn of_alphabet(alphabet: impl Iterator<Item = char>, end: Option<char>) -> Value {
    let alphabet: Vec<char> = alphabet.collect();
    let added: Vec<SpecialToken> = alphabet
        .iter()
        .enumerate()
        .filter(|(_, c)| Some(**c) == end)
        .map(|(id, c)| SpecialToken {
            id: id as u32,
            content: c.to_string(),
            end_of_text: true,
        })
        .collect();
    write(alphabet, &added, None)
}

fn write(
    alphabet: impl IntoIterator<Item = char>,
    added: &[SpecialToken],
    unknown: Option<&str>,
) -> Value {
    let mut vocab = serde_json::Map::new();
    for c in alphabet {
        vocab.insert(c.to_string(), json!(vocab.len()));
    }
    for token in added {
        vocab.insert(token.content.clone(), json!(token.id));
    }
    format::file(
        added,
        Value::Null,
        json!({"type": "Split", "pattern": {"Regex": EACH}, "behavior": "Isolated", "invert": false}),
        Value::Null,
        json!({"type": "Fuse"}),
        json!({"type": "WordLevel", "vocab": vocab, "unk_token": unknown.unwrap_or(NO_UNKNOWN)}),
    )
}

/// A character tokenizer that encodes with a table from character to id.
pub(super) struct Chars {
    /// Id + 1 by scalar value; 0 = not in the vocabulary. Characters beyond the table are in
    /// `rare`.
    table: Vec<u32>,
    rare: HashMap<char, u32>,
    tokens: Vec<Option<String>>,
    unknown: Option<u32>,
    specials: Specials,
    long: HashMap<String, u32>,
}

/// Characters below this are looked up in the table: Latin to Kana. A table of all characters would take 4 MiB.
const TABLE: usize = 0x3100;

impl Chars {
    /// Reads the file, if it is one that [`write`] writes.
    pub(super) fn read(file: &Value, added: &[SpecialToken]) -> Option<Self> {
        let plain = file["model"]["type"] == "WordLevel"
            && file["pre_tokenizer"]["pattern"]["Regex"] == EACH
            && file["pre_tokenizer"]["behavior"] == "Isolated"
            && file["pre_tokenizer"]["invert"] == false
            && file["normalizer"].is_null()
            && format::is_template(&file["post_processor"]);
        if !plain {
            return None;
        }
        let vocab = file["model"]["vocab"].as_object()?;
        let mut chars = Self {
            table: vec![0; TABLE],
            rare: HashMap::new(),
            tokens: Vec::new(),
            unknown: None,
            // A special token of one character is found through the table.
            specials: Specials::new(added.iter().filter(|a| a.content.chars().count() > 1)),
            long: HashMap::new(),
        };
        for (token, id) in vocab {
            chars.insert(token, u32::try_from(id.as_u64()?).ok()?, vocab.len())?;
        }
        for token in added {
            chars.insert(&token.content, token.id, vocab.len() + added.len())?;
        }
        chars.unknown = chars.id(file["model"]["unk_token"].as_str()?);
        Some(chars)
    }

    fn insert(&mut self, token: &str, id: u32, limit: usize) -> Option<()> {
        if id as usize >= limit {
            return None;
        }
        let mut each = token.chars();
        match (each.next(), each.next()) {
            (Some(c), None) if (c as usize) < TABLE => self.table[c as usize] = id + 1,
            (Some(c), None) => {
                self.rare.insert(c, id);
            }
            _ => {
                self.long.insert(token.to_owned(), id);
            }
        }
        if self.tokens.len() <= id as usize {
            self.tokens.resize(id as usize + 1, None);
        }
        self.tokens[id as usize] = Some(token.to_owned());
        Some(())
    }

    pub(super) fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    fn lookup(&self, c: char) -> Option<u32> {
        match self.table.get(c as usize) {
            Some(0) => None,
            Some(id) => Some(id - 1),
            None => self.rare.get(&c).copied(),
        }
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len());
        self.specials.split(text.as_bytes(), |segment| {
            match segment {
                Segment::Special(id) => ids.push(id),
                Segment::Plain(bytes) => {
                    for c in super::utf8(bytes)?.chars() {
                        let id = self.lookup(c).or(self.unknown);
                        ids.push(id.ok_or_else(|| unknown_character(c))?);
                    }
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(ids)
    }

    pub(super) fn decode(&self, ids: &[u32]) -> String {
        let mut text = String::with_capacity(ids.len());
        for id in ids {
            match self.tokens.get(*id as usize).and_then(Option::as_deref) {
                Some(token) => text.push_str(token),
                None => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        text
    }

    pub(super) fn token(&self, id: u32) -> Option<String> {
        self.tokens.get(id as usize).cloned().flatten()
    }

    pub(super) fn id(&self, token: &str) -> Option<u32> {
        let mut each = token.chars();
        match (each.next(), each.next()) {
            (Some(c), None) => self.lookup(c),
            _ => self.long.get(token).copied(),
        }
    }
}

fn unknown_character(c: char) -> Error {
    Error::run(format!(
        "the character {c:?} (U+{:04X}) does not occur in the text that the tokenizer was trained on; remove it, or train with [tokenizer] unknown \
         = \"<unk>\" or kind = \"byte\"",
        c as u32
    ))
}
