//! The special tokens around the texts of a pair: those of a source and of a target that is generated, or
//! those of an encoder around each text.

use crate::data::{PairItem, View};
use crate::error::Result;
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};

/// The special tokens around a text.
#[derive(Clone, Debug)]
pub(in crate::data) enum Framing {
    /// Tokens around a source.
    Source(SpecialTokenLayout),
    /// Tokens that a decoder reads before a target, and the end token.
    Target {
        /// Begin token, and the other tokens before the target.
        opening: Vec<i32>,
        /// End token.
        end: i32,
    },
    /// Tokens around a text that is encoded separately, if the tokenizer adds any.
    Separate(Option<SpecialTokenLayout>),
}

impl Framing {
    /// Returns the number of tokens that the framing adds.
    pub(in crate::data) fn len(&self) -> usize {
        self.before() + self.after()
    }

    /// Returns the number of tokens before a text.
    pub(in crate::data) fn before(&self) -> usize {
        match self {
            Self::Source(edges) => edges.before().len(),
            Self::Target { opening, .. } => opening.len(),
            Self::Separate(edges) => edges.as_ref().map_or(0, |edges| edges.before().len()),
        }
    }

    fn after(&self) -> usize {
        let behind = |edges: &SpecialTokenLayout| edges.len(false) - edges.before().len();
        match self {
            Self::Source(edges) => behind(edges),
            Self::Target { .. } => 1,
            Self::Separate(edges) => edges.as_ref().map_or(0, behind),
        }
    }

    /// Whether each text is encoded separately.
    pub(in crate::data) fn is_separate(&self) -> bool {
        matches!(self, Self::Separate(_))
    }

    /// Adds the tokens to a text, within `max_len` tokens. A target that is cut has no end token, so that the
    /// model does not learn to stop in the middle.
    pub(in crate::data) fn apply(&self, mut ids: Vec<i32>, max_len: usize) -> Vec<i32> {
        let room = max_len.saturating_sub(self.len());
        match self {
            Self::Target { opening, end } => {
                let mut framed = [&opening[..], &ids, &[*end]].concat();
                framed.truncate(max_len);
                framed
            }
            Self::Source(edges) | Self::Separate(Some(edges)) => {
                ids.truncate(room);
                edges.around(&ids)
            }
            Self::Separate(None) => {
                ids.truncate(room);
                ids
            }
        }
    }
}

/// Builds a pair of texts with their special tokens, within these lengths. A decoder reads all but the last
/// token of the second text and predicts all but the first. A separately encoded text gets a dummy first
/// token that is never read, so that its targets are the whole text.
pub(in crate::data) fn pair(
    [first, second]: [&Framing; 2],
    [source, target]: [Vec<i32>; 2],
    [longest, longest_target]: [usize; 2],
) -> PairItem {
    let mut target = second.apply(target, longest_target);
    if second.is_separate() {
        target.insert(0, 0);
    }
    PairItem {
        source: first.apply(source, longest),
        target,
    }
}

/// Returns the special tokens around first and second texts in a view. Sources and targets get what the
/// tokenizer's file puts around a text, so that a run which begins from another run reads and generates texts
/// as that run did.
///
/// # Errors
/// If a vocabulary lacks these tokens.
pub(in crate::data) fn framings(tokenizers: [&Tokenizer; 2], view: &View) -> Result<[Framing; 2]> {
    let [first, second] = tokenizers;
    match view {
        View::EncodedSeparately => Ok(
            [first, second].map(|tokenizer| Framing::Separate(tokenizer.special_token_layout()))
        ),
        View::Plain | View::Masked(_) | View::Corrupted(_) | View::Ctc => {
            let opening = second.target_prefix()?.into_iter();
            Ok([
                Framing::Source(first.source_layout()?),
                Framing::Target {
                    opening: opening.map(|id| id as i32).collect(),
                    end: second.marks()?.end as i32,
                },
            ])
        }
    }
}

/// Whether pairs get more than an end token after a source, and a begin and an end token around a target.
///
/// # Errors
/// If a vocabulary lacks these tokens.
pub(in crate::data) fn is_framed(tokenizers: [&Tokenizer; 2], view: &View) -> Result<bool> {
    let [first, second] = tokenizers;
    Ok(match view {
        View::EncodedSeparately => false,
        View::Plain | View::Masked(_) | View::Corrupted(_) | View::Ctc => {
            let source = first.source_layout()?;
            let end = first.marks().ok().map(|marks| marks.end);
            let ends = end.is_some_and(|end| source.is_end_only(end));
            !ends || second.target_prefix()?.len() > 1
        }
    })
}
