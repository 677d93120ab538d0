//! Sentinels, which stand for the spans removed from a text, and special tokens appended to a vocabulary.
//!
//! T5's vocabulary (Raffel et al., arXiv:1910.10683) ends with `<extra_id_99>` … `<extra_id_0>`; T5's decoder begins with
//! `<pad>`, and texts end with `</s>`.

use super::format::{self, SpecialToken};
use super::{MarkNames, Tokenizer};
use crate::error::{Error, Result};

/// The name of sentinel `number`, counted from 0.
pub fn sentinel(number: usize) -> String {
    format!("<extra_id_{number}>")
}

/// The end token and the padding token that are added to a vocabulary without them.
const END: &str = "</s>";
const PADDING: &str = "<pad>";

impl Tokenizer {
    /// The ids of the first sentinels, at most `most`.
    pub fn sentinels(&self, most: usize) -> Vec<u32> {
        let ids = (0..most).map(|number| self.id(&sentinel(number)));
        ids.map_while(|id| id).collect()
    }

    /// Appends special tokens: those in `names`, an end token and a padding token, each only if the vocabulary lacks
    /// it.
    ///
    /// # Errors
    /// If the new file cannot be read back.
    pub fn with_specials(&self, names: Vec<String>) -> Result<Self> {
        let [_, end, _, pad, _] = self.0.marks;
        let marks = [(end, END), (pad, PADDING)];
        let lacking = marks
            .into_iter()
            .filter(|(mark, name)| mark.is_none() && !names.iter().any(|n| n == name));
        let wanted = lacking
            .map(|(_, name)| name.to_owned())
            .chain(names.clone());
        self.with_tokens(wanted)
    }

    /// Appends those of these special tokens that the vocabulary lacks.
    ///
    /// # Errors
    /// If the new file cannot be read back.
    pub fn with_tokens(&self, names: impl Iterator<Item = String>) -> Result<Self> {
        let new: Vec<String> = names.filter(|name| self.id(name).is_none()).collect();
        if new.is_empty() {
            return Ok(self.clone());
        }
        let mut file = self.file()?;
        let Some(entries) = file["added_tokens"].as_array_mut() else {
            return Err(Error::run(
                "the tokenizer's file is damaged: it has no list `added_tokens`",
            ));
        };
        for (content, id) in new.iter().zip(self.vocab_size() as u32..) {
            entries.push(format::entry(&SpecialToken {
                id,
                content: content.clone(),
                end_of_text: false,
            }));
        }
        let made = Self::from_json(format::to_bytes(&file)?, "tokenizer.json".as_ref())?;
        let made = made.with_notes(self.0.notes.clone());
        let expected = self.vocab_size() + new.len();
        match made.vocab_size() == expected {
            true => Ok(made),
            false => Err(Error::run(format!(
                "the vocabulary has {} tokens with the special tokens instead of {expected}",
                made.vocab_size()
            ))),
        }
    }

    /// Makes the padding token begin targets if no other token does, as in T5.
    ///
    /// # Errors
    /// If the new file cannot be read back.
    pub fn with_padding_as_begin(&self) -> Result<Self> {
        let [begin, _, _, pad, _] = self.0.marks;
        match (begin, pad.and_then(|id| self.token(id))) {
            (None, Some(pad)) => self.with_marks(&MarkNames {
                begin: Some(pad),
                ..MarkNames::default()
            }),
            _ => Ok(self.clone()),
        }
    }
}
