//! The marks of pairs of texts: the special tokens that begin and end a target, separate a source from its
//! target in one sequence, and pad a batch.
//!
//! A tokenizer that is trained for pairs gets the marks that it lacks. A pretrained one has
//! them under well-known names, or under the names given in `[data.marks]`. Given names are written
//! into the file (`"mark": "begin"` in an entry of `added_tokens`, which other readers ignore), so that
//! a program that loads it finds the same marks without the experiment.

mod role;

use serde_json::{Value, json};

use super::format::{self, SpecialToken};
use super::{Tokenizer, TokenizerConfig};
use crate::error::{Error, Fault, Result, nearest};
pub use role::MarkNames;
use role::Role;

/// The ids of the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Token that begins a target: the first one that a decoder reads.
    pub begin: u32,
    /// Token that ends a source and a target.
    pub end: u32,
    /// Token between a source and its target in one sequence.
    pub separator: Option<u32>,
    /// Padding token.
    pub pad: Option<u32>,
}

/// The special tokens around texts; `None` if there is no such token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextMarks {
    /// The first token that a decoder reads, for pairs of texts.
    pub start: Option<u32>,
    /// The token that the decoder reads after the first one, before it generates.
    pub opening: Option<u32>,
    /// Token that begins a text.
    pub begin: Option<u32>,
    /// Token that ends a text.
    pub end: Option<u32>,
    /// Padding token.
    pub pad: Option<u32>,
}

impl From<Marks> for TextMarks {
    fn from(marks: Marks) -> Self {
        Self {
            start: Some(marks.begin),
            opening: None,
            begin: Some(marks.begin),
            end: Some(marks.end),
            pad: marks.pad,
        }
    }
}

impl Marks {
    /// The mark between a source and its target.
    ///
    /// # Errors
    /// If the vocabulary has none.
    pub fn separator(&self) -> Result<u32> {
        self.separator.ok_or_else(|| missing(Role::Separator))
    }
}

impl TokenizerConfig {
    /// Adds special tokens for the marks that the vocabulary lacks; `pretrained` stays as it is.
    #[must_use]
    pub fn with_marks(&self, names: &MarkNames) -> Self {
        let mut config = self.clone();
        let has: Vec<String> = match self {
            Self::Char(c) => owned(&c.names()),
            Self::Byte(c) => owned(&c.names()),
            Self::Word(c) => owned(&c.names()),
            Self::Bpe(c) => owned(&c.names()),
            Self::Wordpiece(c) => owned(&c.names()),
            Self::Unigram(c) => owned(&c.names()),
            Self::Pretrained(_) => return config,
        };
        let has = |name: &str| has.iter().any(|h| h == name);
        let mut new: Vec<String> = Vec::new();
        for role in Role::ALL {
            let wanted = match role.name(names) {
                Some(name) => (!has(name)).then_some(name),
                None if role.known().iter().any(|name| has(name)) => None,
                None => role.known().first().copied(),
            };
            // One token may serve as two marks.
            new.extend(
                wanted
                    .filter(|w| new.iter().all(|n| n != w))
                    .map(String::from),
            );
        }
        let language = names.source_language.as_ref();
        if let Some(name) = language.filter(|name| !has(name) && !new.contains(name)) {
            new.push(name.clone());
        }
        match &mut config {
            Self::Char(c) => c.special_tokens.extend(new),
            Self::Byte(c) => c.special_tokens.extend(new),
            Self::Word(c) => c.special_tokens.extend(new),
            Self::Bpe(c) => c.special_tokens.extend(new),
            Self::Wordpiece(c) => c.special_tokens.extend(new),
            Self::Unigram(c) => c.special_tokens.extend(new),
            Self::Pretrained(_) => {}
        }
        config
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Tokenizer {
    /// The marks of the vocabulary: those that the file names, else well-known names among its special tokens.
    ///
    /// # Errors
    /// If no token begins or none ends a text; the message says how to name one.
    pub fn marks(&self) -> Result<Marks> {
        let [begin, end, separator, pad, _] = self.0.marks;
        Ok(Marks {
            begin: begin.ok_or_else(|| missing(Role::Begin))?,
            end: end.ok_or_else(|| missing(Role::End))?,
            separator,
            pad,
        })
    }

    /// The marks of single texts: a text ends with the end-of-text token, else with the end token of targets.
    pub fn text_marks(&self) -> TextMarks {
        let [begin, end, _, pad, _] = self.0.marks;
        TextMarks {
            start: None,
            opening: None,
            begin,
            end: self.end_of_text().or(end),
            pad,
        }
    }

    /// The token that begins the texts of an encoder-decoder, whose decoder reads [`Marks::begin`] first. If that token also ends
    /// texts or pads (BART's `</s>`, T5's `<pad>`), it begins no text: then it is the frame's begin token, if there is one.
    pub(crate) fn begin_of_pairs(&self) -> Option<u32> {
        let [begin, end, _, pad, _] = self.0.marks;
        match begin.is_some_and(|_| begin == end || begin == pad) {
            true => self.frame().map(|frame| frame.begin),
            false => begin,
        }
    }

    /// Whether targets begin with a language token, as in mBART: a begin token that serves no other purpose and has no usual
    /// name.
    pub(super) fn begins_with_language(&self) -> bool {
        let [begin, end, _, pad, _] = self.0.marks;
        let frame = self.frame().map(|frame| frame.begin);
        let begin = begin.filter(|id| ![end, pad, frame].contains(&Some(*id)));
        let name = begin.and_then(|id| self.token(id));
        name.is_some_and(|name| !Role::Begin.known().contains(&name.as_str()))
    }

    /// Returns the tokenizer with these marks written into its file; unchanged if no name is given.
    ///
    /// # Errors
    /// If a name is not a token.
    pub fn with_marks(&self, names: &MarkNames) -> Result<Self> {
        let given: Vec<(Role, &str)> = Role::ALL
            .into_iter()
            .filter_map(|role| Some((role, role.name(names)?)))
            .collect();
        if given.is_empty() {
            return Ok(self.clone());
        }
        let bad = |why: String| Error::run(format!("the tokenizer's file is damaged: {why}"));
        let mut file: Value =
            serde_json::from_slice(&self.0.json).map_err(|e| bad(e.to_string()))?;
        let Some(entries) = file["added_tokens"].as_array_mut() else {
            return Err(bad("it has no list `added_tokens`".into()));
        };
        let mut faults = Vec::new();
        for (role, name) in given {
            let Some(id) = self.id(name) else {
                faults.push(Fault::new(format!(
                    "[data.marks] {} = \"{name}\" is not a token of the vocabulary{}",
                    role.key(),
                    self.suggested(name)
                )));
                continue;
            };
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                if let Some(marks) = entry.get_mut("mark").and_then(Value::as_array_mut) {
                    marks.retain(|mark| mark != role.key());
                }
            }
            if !entries.iter().any(|e| e["content"] == name) {
                entries.push(format::entry(&SpecialToken {
                    id,
                    content: name.to_owned(),
                    end_of_text: false,
                }));
            }
            for entry in entries.iter_mut().filter(|e| e["content"] == name) {
                match entry["mark"].as_array_mut() {
                    Some(marks) => marks.push(json!(role.key())),
                    None => entry["mark"] = json!([role.key()]),
                }
            }
        }
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        let made = Self::from_json(format::to_bytes(&file)?, "tokenizer.json".as_ref())?;
        Ok(made.with_notes(self.0.notes.clone()))
    }

    /// Suggests the nearest token as `; did you mean …?`, special tokens first.
    pub(super) fn suggested(&self, name: &str) -> String {
        let named = |ids: &mut dyn Iterator<Item = u32>| -> Vec<String> {
            ids.filter_map(|id| self.token(id)).collect()
        };
        let special = named(&mut self.specials().iter().copied());
        let all = named(&mut (0..self.vocab_size() as u32));
        let near = |of: &[String]| nearest(name, of.iter().map(String::as_str)).map(str::to_owned);
        let near = near(&special).or_else(|| near(&all));
        near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
    }

    /// The ids of the special tokens, in ascending order: marks, unknown, mask, padding.
    pub fn specials(&self) -> &[u32] {
        &self.0.specials
    }

    /// Decodes ids without special tokens, but with sentinels, which say where a text belongs.
    pub fn decode_text(&self, ids: &[u32]) -> String {
        let sentinels = self.sentinels(usize::MAX);
        let special = |id: &u32| self.is_special(*id) && !sentinels.contains(id);
        let plain: Vec<u32> = ids.iter().copied().filter(|id| !special(id)).collect();
        self.decode(&plain)
    }
}

fn missing(role: Role) -> Error {
    let purpose = match role {
        Role::Begin => "begins a text",
        Role::End => "ends a text",
        Role::Separator => "separates a source from its target",
        Role::Pad => "pads a row",
        Role::TargetLanguage => "names the language of a target",
    };
    let key = role.key();
    Error::usage(format!(
        "the vocabulary has no token that {purpose} ({}); name one of its tokens with [data] marks = {{ {key} = \"…\" }}",
        role.known().join(", ")
    ))
}

/// Finds the marks of a file, in the order of the roles.
pub(super) fn find(
    file: &Value,
    added: &[SpecialToken],
    id: impl Fn(&str) -> Option<u32>,
) -> [Option<u32>; Role::ALL.len()] {
    let entries = file["added_tokens"].as_array();
    let marked = |role: Role| {
        let says = |e: &&Value| {
            let marks = e["mark"].as_array();
            marks.is_some_and(|marks| marks.iter().any(|mark| mark == role.key()))
        };
        let entry = entries.into_iter().flatten().find(says)?;
        entry["content"].as_str()
    };
    let known = |role: Role| {
        let is_added = |name: &&str| added.iter().any(|a| a.content == **name);
        role.known().iter().copied().find(is_added)
    };
    Role::ALL.map(|role| marked(role).or_else(|| known(role)).and_then(&id))
}

/// The ids of a file's special tokens and of its unknown token.
pub(super) fn specials(file: &Value, id: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
    let entries = file["added_tokens"].as_array();
    let special = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["special"] == true)
        .filter_map(|entry| entry["id"].as_u64());
    let mut ids: Vec<u32> = special.filter_map(|id| u32::try_from(id).ok()).collect();
    let model = &file["model"];
    ids.extend(model["unk_token"].as_str().and_then(&id));
    ids.extend(
        model["unk_id"]
            .as_u64()
            .and_then(|id| u32::try_from(id).ok()),
    );
    ids.sort_unstable();
    ids.dedup();
    ids
}
