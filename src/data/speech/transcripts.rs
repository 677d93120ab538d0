//! How the tokens of a transcript stand beside its recording: in marks, to be written one after the other, or as they are, to be found
//! along the recording.

use super::marks;
use crate::data::View;
use crate::data::batch::{SpeechItem, SpokenItem};
use crate::data::described::marked;
use crate::error::{Error, Result};
use crate::tokenizer::{Edges, Tokenizer};

/// How transcripts stand in examples.
#[derive(Clone, Debug)]
pub enum Transcripts {
    /// In these marks.
    Marked(Edges),
    /// Without marks, beside a token that stands for no character.
    Aligned(u32),
}

impl Transcripts {
    /// Those of a vocabulary in a view.
    ///
    /// # Errors
    /// A vocabulary without marks around a text, or without a token that stands for no character.
    pub fn new(tokenizer: &Tokenizer, view: &View) -> Result<Self> {
        match view {
            View::Aligned => blank(tokenizer).map(Self::Aligned),
            View::AsItIs | View::Masked(_) | View::Corrupted(_) | View::Alone => {
                marks(tokenizer).map(Self::Marked)
            }
        }
    }

    /// The token that stands for no character, where there is one.
    pub fn blank(&self) -> Option<usize> {
        match self {
            Self::Marked(_) => None,
            Self::Aligned(blank) => Some(*blank as usize),
        }
    }

    /// A transcript of these tokens as examples have it, of at most `context` tokens. One that is written is cut to that.
    ///
    /// # Errors
    /// More tokens than `context` that are to be found along a recording.
    pub(in crate::data) fn fitted(&self, mut ids: Vec<i32>, context: usize) -> Result<Vec<i32>> {
        match self {
            Self::Marked(edges) => Ok(marked(&ids, edges, context)),
            Self::Aligned(blank) => {
                ids.retain(|id| *id != *blank as i32);
                match ids.len() <= context {
                    true => Ok(ids),
                    false => Err(Error::usage(format!(
                        "the transcript has {} tokens, and [data] context = {context} is the most; set context = {}",
                        ids.len(),
                        ids.len()
                    ))),
                }
            }
        }
    }

    /// An example of a recording with a transcript of any length.
    pub fn example(&self, speech: SpeechItem, ids: &[i32]) -> SpokenItem {
        match self {
            Self::Marked(edges) => SpokenItem::new(speech, &edges.around(ids)),
            Self::Aligned(_) => SpokenItem::aligned(speech, ids),
        }
    }

    /// An example of a recording with a transcript that was fitted.
    pub fn item(&self, speech: SpeechItem, ids: &[i32]) -> SpokenItem {
        match self {
            Self::Marked(_) => SpokenItem::new(speech, ids),
            Self::Aligned(_) => SpokenItem::aligned(speech, ids),
        }
    }
}

/// The token that stands for no character: that which fills up rows.
fn blank(tokenizer: &Tokenizer) -> Result<u32> {
    tokenizer.pad().ok_or_else(|| {
        Error::usage(
            "[tokenizer] the vocabulary has no special token that fills up rows, <pad> or [PAD], which stands for no character between \
             those of a transcript: give one to the tokenizer",
        )
    })
}
