//! The marks of texts that become other texts: where a target begins and ends, what separates a source from its
//! target in one sequence, what fills up a row.
//!
//! Marks are special tokens. A tokenizer that is made for pairs gets those that it lacks; a pretrained one has
//! them under well-known names, or under the names that `[data.marks]` gives. Names that were given are written
//! into the file (`"mark": "begin"` at an entry of `added_tokens`, which other readers pass over), so that
//! a program that loads it finds the same marks without the experiment.

mod role;

use serde_json::{Value, json};

use super::format::{self, Added};
use super::{Tokenizer, TokenizerConfig};
use crate::error::{Error, Fault, Result, nearest};
pub use role::MarkNames;
use role::Role;

/// The marks' ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Begins a target; the first token that a decoder reads.
    pub begin: u32,
    /// Ends a source and a target.
    pub end: u32,
    /// Between a source and its target in one sequence.
    pub separator: Option<u32>,
    /// Fills up a row.
    pub pad: Option<u32>,
}

/// The tokens around texts, each where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextMarks {
    /// The first token that a decoder reads, of texts that become other texts.
    pub start: Option<u32>,
    /// The token that it reads behind the first one, before it writes anything.
    pub opening: Option<u32>,
    /// Begins a text.
    pub begin: Option<u32>,
    /// Ends a text.
    pub end: Option<u32>,
    /// Fills up a row.
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
    /// The vocabulary has none.
    pub fn separator(&self) -> Result<u32> {
        self.separator.ok_or_else(|| missing(Role::Separator))
    }
}

impl TokenizerConfig {
    /// The same with special tokens for the marks that it lacks; `pretrained` stays as it is.
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
            // One token may be two marks.
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
    /// The marks of its vocabulary: those that its file names, else the well-known names among its tokens.
    ///
    /// # Errors
    /// It has none that begins or none that ends a text; the message says how to name one.
    pub fn marks(&self) -> Result<Marks> {
        let [begin, end, separator, pad, _] = self.0.marks;
        Ok(Marks {
            begin: begin.ok_or_else(|| missing(Role::Begin))?,
            end: end.ok_or_else(|| missing(Role::End))?,
            separator,
            pad,
        })
    }

    /// The marks of texts that continue: the end of a text is the one that separates documents, else the mark of targets.
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

    /// The token that begins the texts of an encoder-decoder, whose decoder reads [`Marks::begin`] first. That token begins no text
    /// where it also ends texts or fills up rows (BART's `</s>`, T5's `<pad>`); then it is the one of the frame, where there is one.
    pub(crate) fn begin_of_pairs(&self) -> Option<u32> {
        let [begin, end, _, pad, _] = self.0.marks;
        match begin.is_some_and(|_| begin == end || begin == pad) {
            true => self.frame().map(|frame| frame.begin),
            false => begin,
        }
    }

    /// Whether targets begin with the token of a language, as those of mBART: one that has no other work and no usual name.
    pub(super) fn begins_with_language(&self) -> bool {
        let [begin, end, _, pad, _] = self.0.marks;
        let frame = self.frame().map(|frame| frame.begin);
        let begin = begin.filter(|id| ![end, pad, frame].contains(&Some(*id)));
        let name = begin.and_then(|id| self.token(id));
        name.is_some_and(|name| !Role::Begin.known().contains(&name.as_str()))
    }

    /// The same with these marks written into its file; the same as it is when no name is given.
    ///
    /// # Errors
    /// A name that is no token.
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
                entries.push(format::entry(&Added {
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

    /// `; did you mean …?` with the nearest token, a special one before others.
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

    /// Ids of the special tokens, in ascending order: marks, unknown, masks, fillings.
    pub fn specials(&self) -> &[u32] {
        &self.0.specials
    }

    /// The text of some ids, special tokens left out; sentinels stay, which say where a text belongs.
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
        Role::Pad => "fills up a row",
        Role::TargetLanguage => "names the language of a target",
    };
    let key = role.key();
    Error::usage(format!(
        "the vocabulary has no token that {purpose} ({}); name one of its tokens with [data] marks = {{ {key} = \"…\" }}",
        role.known().join(", ")
    ))
}

/// The marks of a file, in the order of the roles.
pub(super) fn find(
    file: &Value,
    added: &[Added],
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

/// Ids of the special tokens of a file and of what stands for unknown text.
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
