//! Language tokens around the texts of multilingual translation models. mBART-50, M2M-100 and NLLB-200 read `en_XX … </s>` and
//! generate `de_DE … </s>` after the token that a decoder begins with (Tang et al., arXiv:2008.00401; Fan et al.,
//! arXiv:2010.11125; NLLB Team, arXiv:2207.04672). mBART reads `… </s> en_XX`, and its decoder begins with `de_DE` itself (Liu et
//! al., arXiv:2001.08210).

use super::{Engine, MarkNames, Tokenizer};
use crate::error::{Error, Fault, Result};

impl Tokenizer {
    /// The language token that follows the begin token of every target, if the file names one.
    pub fn target_language(&self) -> Option<u32> {
        self.0.marks[4]
    }

    /// Returns the tokenizer with sources in the language that `names` gives; unchanged if it gives none.
    ///
    /// # Errors
    /// The errors of [`Self::with_named_source_language`].
    pub fn with_source_language(&self, names: &MarkNames) -> Result<Self> {
        let Some(name) = names.source_language.as_deref() else {
            return Ok(self.clone());
        };
        let refused = |why: String| {
            let message = format!("[data.marks] source_language = \"{name}\" {why}");
            Error::Invalid(vec![Fault::new(message)])
        };
        self.with_named_source_language(name).map_err(refused)
    }

    /// Returns the tokenizer with sources in a language. Its token replaces the language token that the file puts around a source
    /// beside the end token; if there is none, it is put before the source.
    ///
    /// # Errors
    /// If the name is not a token, or the file puts other tokens around a source.
    pub fn with_named_source_language(&self, name: &str) -> Result<Self, String> {
        let language = self.language_id(name)?;
        if !matches!(self.0.engine, Engine::Library(_)) {
            let why = "cannot be used with a tokenizer of characters or bytes; use one of words or pieces";
            return Err(why.into());
        }
        let said = |e: Error| e.to_string();
        let end = self.marks().map_err(said)?.end;
        let edges = self.source_layout().map_err(said)?;
        let around = edges.around(&[]);
        let (before, behind) = around.split_at(edges.before().len());
        let ids = |ids: &[i32]| -> Vec<u32> { ids.iter().map(|id| *id as u32).collect() };
        let mut sides = [ids(before), ids(behind)];
        let all = sides.concat();
        let others: Vec<u32> = all.iter().copied().filter(|id| *id != end).collect();
        let is_frame = |id: u32| self.frame().is_some_and(|frame| frame.begin == id);
        match others[..] {
            [] => sides[0].push(language),
            [one] if !is_frame(one) => {
                let places = sides.iter_mut().flatten();
                places
                    .filter(|id| **id == one)
                    .for_each(|id| *id = language);
            }
            _ => {
                let names: Vec<String> = all.iter().filter_map(|id| self.token(*id)).collect();
                return Err(format!(
                    "cannot be used: the tokenizer's file puts {} around a source, and none of these tokens is a language",
                    names.join(" ")
                ));
            }
        }
        self.with_tokens_around(&sides[0], &sides[1]).map_err(said)
    }

    /// Returns the tokenizer with targets in a language, whose token follows the begin token of targets, or replaces it (mBART).
    ///
    /// # Errors
    /// If the name is not a token.
    pub fn with_named_target_language(&self, name: &str) -> Result<Self, String> {
        self.language_id(name)?;
        let name = Some(name.to_owned());
        let names = match self.begins_with_language() {
            true => MarkNames {
                begin: name,
                ..MarkNames::default()
            },
            false => MarkNames {
                target_language: name,
                ..MarkNames::default()
            },
        };
        self.with_marks(&names).map_err(|e| e.to_string())
    }

    /// The id of a language's token.
    fn language_id(&self, name: &str) -> Result<u32, String> {
        self.id(name)
            .ok_or_else(|| format!("is not a token of the vocabulary{}", self.suggested(name)))
    }
}
