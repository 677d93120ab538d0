//! The tokens that a tokenizer's file puts around a text: those with which the model reads it. A program that loads the file
//! then gives the model the ids that it was trained on.
//!
//! The library calls this a post-processor. Our own encoding never uses it: the data pipeline adds frames and marks to ids.

use serde_json::{Map, Value, json};

use super::{Engine, Frame, Tokenizer, format};
use crate::error::{Error, Result};
use std::path::Path;

/// The tokens that a model expects around a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenFraming {
    /// No tokens: next-token models.
    #[default]
    NoTokens,
    /// The [`super::Frame`] of encoders, if the vocabulary has one.
    Frame,
    /// The [`super::SpecialTokenLayout`] of classifiers and embedding models: those in the tokenizer's own file, or the frame.
    FileLayout,
    /// The end token after the source text of a pair.
    End,
    /// The frame's tokens after a text, if the vocabulary has a frame: XLNet's `A <sep> <cls>`, the last one in a
    /// segment of its own.
    TrailingClass,
}

/// Placeholders for the two texts of a pair.
const TEXTS: [i32; 2] = [-1, -2];

/// Ids or placeholders, each with its segment.
type Pieces = Vec<(i32, i32)>;

impl Tokenizer {
    /// Returns the tokenizer with a file that puts the tokens that a model expects around one text and around two; unchanged
    /// if its file already does.
    ///
    /// # Errors
    /// If the vocabulary lacks the marks that are asked for.
    pub fn with_framing(&self, around: TokenFraming) -> Result<Self> {
        let (one, two) = self.template_pieces(around)?;
        let own = around == TokenFraming::FileLayout && self.file_layout().is_some();
        if own || self.adds_tokens(&one, &two) {
            return Ok(self.clone());
        }
        let mut file: Value = self.file()?;
        file["post_processor"] = match one.len() {
            1 => Value::Null,
            _ => self.template(&one, &two),
        };
        let made = Self::from_json(format::to_bytes(&file)?, Path::new("tokenizer.json"))?;
        Ok(made.with_notes(self.0.notes.clone()))
    }

    /// Returns the tokenizer with a file that puts these tokens around one text, and around two.
    ///
    /// # Errors
    /// If an id is outside of the vocabulary.
    pub fn with_tokens_around(&self, before: &[u32], behind: &[u32]) -> Result<Self> {
        let all = || before.iter().chain(behind);
        if let Some(id) = all().find(|id| **id as usize >= self.vocab_size()) {
            return Err(Error::usage(format!(
                "the special token {id} of a text must be below the vocabulary size {}",
                self.vocab_size()
            )));
        }
        let [a, b] = TEXTS;
        let around = |texts: &[i32]| -> Pieces {
            let ids = |ids: &[u32]| -> Vec<i32> { ids.iter().map(|id| *id as i32).collect() };
            let pieces = [&ids(before)[..], texts, &ids(behind)].concat();
            pieces.into_iter().map(|id| (id, 0)).collect()
        };
        let mut file = self.file()?;
        file["post_processor"] = self.template(&around(&[a]), &around(&[a, b]));
        let made = Self::from_json(format::to_bytes(&file)?, Path::new("tokenizer.json"))?;
        Ok(made.with_notes(self.0.notes.clone()))
    }

    /// The frame that the tokenizer's file puts around a text; `None` if it puts nothing, or something else.
    pub fn framing(&self) -> Option<Frame> {
        let (one, two) = self.template_pieces(TokenFraming::Frame).ok()?;
        self.frame().filter(|_| self.adds_tokens(&one, &two))
    }

    /// Whether the file puts the tokens of [`TokenFraming::Behind`] around texts, in a vocabulary with a frame.
    pub(super) fn has_trailing_class(&self) -> bool {
        let around = self
            .frame()
            .and_then(|_| self.template_pieces(TokenFraming::TrailingClass).ok());
        around.is_some_and(|(one, two)| self.adds_tokens(&one, &two))
    }

    /// The sequences for one text and for two: placeholders and the tokens around them, each with its segment.
    fn template_pieces(&self, around: TokenFraming) -> Result<(Pieces, Pieces)> {
        let [a, b] = TEXTS;
        let framed = matches!(
            around,
            TokenFraming::Frame | TokenFraming::FileLayout | TokenFraming::TrailingClass
        );
        let frame = self.frame().filter(|_| framed);
        Ok(match (around, frame) {
            (TokenFraming::Frame | TokenFraming::FileLayout, Some(frame)) => {
                let one = frame.around(&[a]).into_iter().map(|id| (id, 0));
                let (ids, segments) = frame.around_both(&[a], &[b]);
                (one.collect(), ids.into_iter().zip(segments).collect())
            }
            (TokenFraming::TrailingClass, Some(frame)) => {
                let [end, whole] = [frame.end as i32, frame.begin as i32];
                (
                    vec![(a, 0), (end, 0), (whole, 2)],
                    vec![(a, 0), (end, 0), (b, 1), (end, 1), (whole, 2)],
                )
            }
            (TokenFraming::End, _) => {
                let end = self.marks()?.end as i32;
                (
                    vec![(a, 0), (end, 0)],
                    vec![(a, 0), (end, 0), (b, 1), (end, 1)],
                )
            }
            (TokenFraming::NoTokens, _)
            | (
                TokenFraming::Frame | TokenFraming::FileLayout | TokenFraming::TrailingClass,
                None,
            ) => (vec![(a, 0)], vec![(a, 0), (b, 1)]),
        })
    }

    /// Whether the file puts these tokens around one text and around two, as found by encoding empty texts.
    fn adds_tokens(&self, one: &[(i32, i32)], two: &[(i32, i32)]) -> bool {
        let Engine::Library(library) = &self.0.engine else {
            let own = |file: Value| match one.len() {
                1 => file["post_processor"].is_null(),
                _ => file["post_processor"] == self.template(one, two),
            };
            return self.file().is_ok_and(own);
        };
        let only = |tokens: &[(i32, i32)]| -> Vec<u32> {
            let marks = tokens.iter().map(|(id, _)| *id).filter(|id| *id >= 0);
            marks.map(|id| id as u32).collect()
        };
        let found = |encoding: tokenizers::Result<tokenizers::Encoding>| {
            Some(encoding.ok()?.get_ids().to_vec())
        };
        found(library.encode("", true)) == Some(only(one))
            && found(library.encode(("", ""), true)) == Some(only(two))
    }

    fn template(&self, one: &[(i32, i32)], two: &[(i32, i32)]) -> Value {
        let name = |id: i32| self.token(id as u32).unwrap_or_default();
        let part = |(id, kind): &(i32, i32)| {
            let text = TEXTS.iter().zip(["A", "B"]).find(|(text, _)| *text == id);
            match text {
                Some((_, name)) => json!({"Sequence": {"id": name, "type_id": kind}}),
                None => json!({"SpecialToken": {"id": name(*id), "type_id": kind}}),
            }
        };
        let marks = two.iter().map(|(id, _)| *id).filter(|id| *id >= 0);
        let tokens: Map<String, Value> = marks
            .map(|id| {
                let name = name(id);
                let token = json!({"id": name, "ids": [id], "tokens": [name]});
                (name, token)
            })
            .collect();
        json!({
            "type": "TemplateProcessing",
            "single": one.iter().map(part).collect::<Vec<_>>(),
            "pair": two.iter().map(part).collect::<Vec<_>>(),
            "special_tokens": tokens,
        })
    }

    /// Whether each id stands for the same token in both, and both split texts alike; special tokens and marks may differ.
    pub fn encodes_like(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
            || self.vocab_size() == other.vocab_size() && self.extends_ids_of(other)
    }

    /// Whether this tokenizer is the other one with further tokens appended.
    pub fn extends(&self, other: &Self) -> bool {
        self.vocab_size() > other.vocab_size() && self.extends_ids_of(other)
    }

    /// Whether each id of the other tokenizer stands for the same token here, and both split texts alike.
    fn extends_ids_of(&self, other: &Self) -> bool {
        let (Ok(own), Ok(theirs)) = (self.file(), other.file()) else {
            return false;
        };
        let parts = ["model", "normalizer", "pre_tokenizer"];
        let same = |id: u32| self.token(id) == other.token(id);
        parts.iter().all(|part| own[*part] == theirs[*part])
            && (0..other.vocab_size() as u32).all(same)
    }

    /// The tokenizer's file as JSON.
    pub(super) fn file(&self) -> Result<Value> {
        serde_json::from_slice(&self.0.json)
            .map_err(|e| Error::run(format!("the tokenizer's file is damaged: {e}")))
    }
}
