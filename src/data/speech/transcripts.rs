//! The tokens of a transcript beside its recording: either with special tokens, to be generated one after the
//! other, or without them, to be aligned with the recording.

use super::marks;
use crate::data::View;
use crate::data::batch::{SpeechItem, SpokenItem};
use crate::data::described::with_special_tokens;
use crate::error::{Error, Result};
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};

/// The form of transcripts in examples.
#[derive(Clone, Debug)]
pub enum Transcripts {
    /// With these special tokens, to be generated.
    Marked(SpecialTokenLayout),
    /// Without special tokens, to be aligned; the value is the blank token.
    Aligned(u32),
}

impl Transcripts {
    /// Returns the form for a vocabulary in a view.
    ///
    /// # Errors
    /// If the vocabulary has no tokens around a text, or no blank token.
    pub fn new(tokenizer: &Tokenizer, view: &View) -> Result<Self> {
        match view {
            View::Ctc => blank(tokenizer).map(Self::Aligned),
            View::Plain | View::Masked(_) | View::Corrupted(_) | View::EncodedSeparately => {
                marks(tokenizer).map(Self::Marked)
            }
        }
    }

    /// Returns the blank token, if there is one.
    pub fn blank(&self) -> Option<usize> {
        match self {
            Self::Marked(_) => None,
            Self::Aligned(blank) => Some(*blank as usize),
        }
    }

    /// Returns the tokens of a transcript as they are in examples, at most `context`. A transcript to be
    /// generated is cut to that length.
    ///
    /// # Errors
    /// If a transcript to be aligned has more than `context` tokens.
    pub(in crate::data) fn fitted(&self, mut ids: Vec<i32>, context: usize) -> Result<Vec<i32>> {
        match self {
            Self::Marked(edges) => Ok(with_special_tokens(&ids, edges, context)),
            Self::Aligned(blank) => {
                ids.retain(|id| *id != *blank as i32);
                match ids.len() <= context {
                    true => Ok(ids),
                    false => Err(Error::usage(format!(
                        "the transcript has {} tokens, but [data] context = {context} is the maximum; set context = {}",
                        ids.len(),
                        ids.len()
                    ))),
                }
            }
        }
    }

    /// Builds an example of a recording with a transcript of any length.
    pub fn example(&self, speech: SpeechItem, ids: &[i32]) -> SpokenItem {
        match self {
            Self::Marked(edges) => SpokenItem::new(speech, &edges.around(ids)),
            Self::Aligned(_) => SpokenItem::aligned(speech, ids),
        }
    }

    /// Builds an example of a recording with a transcript from [`Self::fitted`].
    pub fn item(&self, speech: SpeechItem, ids: &[i32]) -> SpokenItem {
        match self {
            Self::Marked(_) => SpokenItem::new(speech, ids),
            Self::Aligned(_) => SpokenItem::aligned(speech, ids),
        }
    }
}

/// Returns the blank token, which is the padding token.
fn blank(tokenizer: &Tokenizer) -> Result<u32> {
    tokenizer.pad().ok_or_else(|| {
        Error::usage(
            "[tokenizer] the vocabulary has no padding token, <pad> or [PAD], which CTC uses as the blank between characters; add one to the \
             tokenizer",
        )
    })
}
