//! The tokens around the texts of a pair: marks of a source and of a target that is written, or the tokens of encoders around
//! each text alone.

use crate::data::{PairItem, View};
use crate::error::Result;
use crate::tokenizer::{Edges, Marks, Tokenizer};

/// Marks around a source: the one that ends it.
const SOURCE_MARKS: usize = 1;
/// Marks around a target: those that begin and end it.
const TARGET_MARKS: usize = 2;

/// The tokens that stand around a text.
#[derive(Clone, Debug)]
pub(in crate::data) enum Framing {
    /// The mark that ends a source.
    Source(Marks),
    /// The marks that begin and end a target.
    Target(Marks),
    /// The tokens of encoders, where there are some, around each text alone.
    Alone(Option<Edges>),
}

impl Framing {
    /// Tokens that it adds.
    pub(in crate::data) fn len(&self) -> usize {
        match self {
            Self::Source(_) => SOURCE_MARKS,
            Self::Target(_) => TARGET_MARKS,
            Self::Alone(edges) => edges.as_ref().map_or(0, |edges| edges.len(false)),
        }
    }

    /// Whether each text is read alone.
    pub(in crate::data) fn is_alone(&self) -> bool {
        matches!(self, Self::Alone(_))
    }

    /// A text with it, in `max_len` tokens.
    fn put(&self, mut ids: Vec<i32>, max_len: usize) -> Vec<i32> {
        match self {
            Self::Source(marks) => frame_source(ids, marks, max_len),
            Self::Target(marks) => frame_target(&ids, marks, max_len),
            Self::Alone(edges) => {
                ids.truncate(max_len.saturating_sub(self.len()));
                match edges {
                    Some(edges) => edges.around(&ids),
                    None => ids,
                }
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

/// The tokens around first and second texts, of these tokenizers, in a view.
///
/// # Errors
/// A vocabulary without them.
pub(in crate::data) fn framings(tokenizers: [&Tokenizer; 2], view: &View) -> Result<[Framing; 2]> {
    let [first, second] = tokenizers;
    match view {
        View::Alone => Ok([first, second].map(|tokenizer| Framing::Alone(tokenizer.edges()))),
        View::AsItIs | View::Masked(_) | View::Corrupted(_) => Ok([
            Framing::Source(first.marks()?),
            Framing::Target(second.marks()?),
        ]),
    }
}

/// A source: its ids and the mark that ends it, in `max_len` tokens.
pub(in crate::data) fn frame_source(mut ids: Vec<i32>, marks: &Marks, max_len: usize) -> Vec<i32> {
    ids.truncate(max_len.saturating_sub(SOURCE_MARKS));
    ids.push(marks.end as i32);
    ids
}

/// A target: the mark that begins it, its ids, the mark that ends it. One that is cut to `max_len` tokens does
/// not end: a model shall not learn to stop in the middle.
pub(in crate::data) fn frame_target(ids: &[i32], marks: &Marks, max_len: usize) -> Vec<i32> {
    let mut framed = Vec::with_capacity(ids.len() + TARGET_MARKS);
    framed.push(marks.begin as i32);
    framed.extend_from_slice(ids);
    framed.push(marks.end as i32);
    framed.truncate(max_len);
    framed
}
