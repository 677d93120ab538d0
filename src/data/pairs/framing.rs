//! The tokens around the texts of a pair: marks of a source and of a target that is written, or the tokens of encoders around
//! each text alone.

use crate::data::{PairItem, View};
use crate::error::Result;
use crate::tokenizer::{Edges, Tokenizer};

/// The tokens that stand around a text.
#[derive(Clone, Debug)]
pub(in crate::data) enum Framing {
    /// Those around a source.
    Source(Edges),
    /// Those that a decoder reads before a target, and the mark that ends it.
    Target {
        /// The mark that begins it, and what else stands before it.
        opening: Vec<i32>,
        /// Ends it.
        end: i32,
    },
    /// The tokens of encoders, where there are some, around each text alone.
    Alone(Option<Edges>),
}

impl Framing {
    /// Tokens that it adds.
    pub(in crate::data) fn len(&self) -> usize {
        self.before() + self.behind()
    }

    /// Tokens before a text.
    pub(in crate::data) fn before(&self) -> usize {
        match self {
            Self::Source(edges) => edges.before().len(),
            Self::Target { opening, .. } => opening.len(),
            Self::Alone(edges) => edges.as_ref().map_or(0, |edges| edges.before().len()),
        }
    }

    fn behind(&self) -> usize {
        let behind = |edges: &Edges| edges.len(false) - edges.before().len();
        match self {
            Self::Source(edges) => behind(edges),
            Self::Target { .. } => 1,
            Self::Alone(edges) => edges.as_ref().map_or(0, behind),
        }
    }

    /// Whether each text is read alone.
    pub(in crate::data) fn is_alone(&self) -> bool {
        matches!(self, Self::Alone(_))
    }

    /// A text with it, in `max_len` tokens. A target that is cut does not end: a model shall not learn to stop in the middle.
    pub(in crate::data) fn put(&self, mut ids: Vec<i32>, max_len: usize) -> Vec<i32> {
        let room = max_len.saturating_sub(self.len());
        match self {
            Self::Target { opening, end } => {
                let mut framed = [&opening[..], &ids, &[*end]].concat();
                framed.truncate(max_len);
                framed
            }
            Self::Source(edges) | Self::Alone(Some(edges)) => {
                ids.truncate(room);
                edges.around(&ids)
            }
            Self::Alone(None) => {
                ids.truncate(room);
                ids
            }
        }
    }
}

/// A pair of texts with the tokens around them, in so many tokens. A decoder reads the second text but for its last token and
/// writes it but for its first; one that is read alone begins with a token that nothing reads, so that its targets are all of it.
pub(in crate::data) fn pair(
    [first, second]: [&Framing; 2],
    [source, target]: [Vec<i32>; 2],
    [longest, longest_target]: [usize; 2],
) -> PairItem {
    let mut target = second.put(target, longest_target);
    if second.is_alone() {
        target.insert(0, 0);
    }
    PairItem {
        source: first.put(source, longest),
        target,
    }
}

/// The tokens around first and second texts, of these tokenizers, in a view. Sources and targets stand in what the tokenizer's file
/// puts around a text, so that a run which begins from another one reads and writes as that one did.
///
/// # Errors
/// A vocabulary without them.
pub(in crate::data) fn framings(tokenizers: [&Tokenizer; 2], view: &View) -> Result<[Framing; 2]> {
    let [first, second] = tokenizers;
    match view {
        View::Alone => Ok([first, second].map(|tokenizer| Framing::Alone(tokenizer.edges()))),
        View::AsItIs | View::Masked(_) | View::Corrupted(_) | View::Aligned => {
            let opening = second.target_opening()?.into_iter();
            Ok([
                Framing::Source(first.source_edges()?),
                Framing::Target {
                    opening: opening.map(|id| id as i32).collect(),
                    end: second.marks()?.end as i32,
                },
            ])
        }
    }
}

/// Whether pairs of these tokenizers stand in more than the end mark behind a source and the marks around a target.
///
/// # Errors
/// A vocabulary without marks.
pub(in crate::data) fn is_framed(tokenizers: [&Tokenizer; 2], view: &View) -> Result<bool> {
    let [first, second] = tokenizers;
    Ok(match view {
        View::Alone => false,
        View::AsItIs | View::Masked(_) | View::Corrupted(_) | View::Aligned => {
            let source = first.source_edges()?;
            let end = first.marks().ok().map(|marks| marks.end);
            let ends = end.is_some_and(|end| source.are_end(end));
            !ends || second.target_opening()?.len() > 1
        }
    })
}
