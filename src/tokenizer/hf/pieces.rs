//! A SentencePiece model as data: its pieces and the settings that decide how a text is split, checked.

use std::collections::HashMap;

use prost::Message;

use super::files::{Folder, fault};
use super::proto::ModelProto;
use crate::error::Result;

/// Maximum number of pieces; the largest published vocabulary has a million (XLM-V).
const MOST_PIECES: usize = 4_000_000;

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// A piece with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub text: String,
    pub score: f64,
    pub sort: PieceKind,
}

/// The algorithm that splits a text into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    Unigram,
    Bpe,
}

/// A SentencePiece model.
#[derive(Clone, Debug, PartialEq)]
pub struct Pieces {
    pub all: Vec<Piece>,
    pub model: Model,
    /// The index of the piece for unknown text.
    pub unknown: usize,
    pub byte_fallback: bool,
    /// The compiled character map; empty if texts are not normalised.
    pub charsmap: Vec<u8>,
    pub add_dummy_prefix: bool,
    pub remove_extra_whitespaces: bool,
}

impl Pieces {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file is not a SentencePiece model, or is one that the SentencePiece library would refuse.
    pub fn read(folder: Folder, name: &str) -> Result<Self> {
        let path = folder.path(name);
        let bad = |why: String| fault(&path, format!("is not a SentencePiece model: {why}"));
        let file = ModelProto::decode(folder.bytes(name)?.as_slice());
        Self::of(&file.map_err(|e| bad(e.to_string()))?).map_err(bad)
    }

    fn of(file: &ModelProto) -> Result<Self, String> {
        let count = file.pieces.len();
        if count == 0 {
            return Err("it has no pieces".into());
        }
        if count > MOST_PIECES {
            return Err(format!("it has {count} pieces, more than {MOST_PIECES}"));
        }
        let mut all = Vec::with_capacity(count);
        let mut seen: HashMap<&str, usize> = HashMap::with_capacity(count);
        let mut unknown = None;
        for (id, piece) in file.pieces.iter().enumerate() {
            let (text, score) = (piece.piece(), piece.score());
            let sort = sort(piece.r#type())
                .ok_or_else(|| format!("piece {id} has the type {}", piece.r#type()))?;
            if text.is_empty() {
                return Err(format!("piece {id} is empty"));
            }
            if let Some(first) = seen.insert(text, id) {
                return Err(format!("the pieces {first} and {id} are both `{text}`"));
            }
            if !score.is_finite() {
                return Err(format!("piece {id}, `{text}`, has the score {score}"));
            }
            if sort == PieceKind::Unknown && unknown.replace(id).is_some() {
                return Err(format!(
                    "piece {id}, `{text}`, is a second piece for unknown text"
                ));
            }
            all.push(Piece {
                text: text.to_owned(),
                score: f64::from(score),
                sort,
            });
        }
        let unknown = unknown.ok_or("it has no piece for unknown text")?;
        let trainer = file.trainer_spec.clone().unwrap_or_default();
        let normalizer = file.normalizer_spec.clone().unwrap_or_default();
        let model = match trainer.model_type() {
            1 => Model::Unigram,
            2 => Model::Bpe,
            3 => {
                return Err(
                    "it is of the type `word`, but only `unigram` and `bpe` can be read".into(),
                );
            }
            4 => {
                return Err(
                    "it is of the type `char`, but only `unigram` and `bpe` can be read".into(),
                );
            }
            other => {
                return Err(format!(
                    "its type is {other}, but only 1 (unigram) and 2 (bpe) can be read"
                ));
            }
        };
        if !normalizer.escape_whitespaces() {
            return Err(
                "its pieces do not write spaces as `▁` (escape_whitespaces = false)".into(),
            );
        }
        if trainer.treat_whitespace_as_suffix() {
            return Err(
                "its pieces have the space after a word (treat_whitespace_as_suffix = true), but only pieces with the space before it can be read"
                    .into(),
            );
        }
        Ok(Self {
            all,
            model,
            unknown,
            byte_fallback: trainer.byte_fallback(),
            charsmap: normalizer.precompiled_charsmap().to_vec(),
            add_dummy_prefix: normalizer.add_dummy_prefix(),
            remove_extra_whitespaces: normalizer.remove_extra_whitespaces(),
        })
    }

    /// The pairs that BPE joins, in order: every piece is joined from any two pieces that make it up, in the order
    /// of the pieces, as transformers derives merges from a vocabulary.
    pub fn merges(&self) -> Vec<[&str; 2]> {
        let known: std::collections::HashSet<&str> =
            self.all.iter().map(|p| p.text.as_str()).collect();
        let mut merges = Vec::new();
        for piece in &self.all {
            let text = piece.text.as_str();
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if known.contains(left) && known.contains(right) {
                    merges.push([left, right]);
                }
            }
        }
        merges
    }
}

impl PieceKind {
    /// The number of the kind in a file.
    pub fn number(self) -> i32 {
        match self {
            Self::Normal => 1,
            Self::Unknown => 2,
            Self::Control => 3,
            Self::UserDefined => 4,
            Self::Unused => 5,
            Self::Byte => 6,
        }
    }
}

fn sort(number: i32) -> Option<PieceKind> {
    Some(match number {
        1 => PieceKind::Normal,
        2 => PieceKind::Unknown,
        3 => PieceKind::Control,
        4 => PieceKind::UserDefined,
        5 => PieceKind::Unused,
        6 => PieceKind::Byte,
        _ => return None,
    })
}
