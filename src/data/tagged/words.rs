//! Encodes words as a model reads them.

use crate::data::labelled::examples::{Labelled, framed};
use crate::data::{Item, Source, Split, TextItem};
use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// The words of a sentence as in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedWords {
    /// All words, in order.
    pub words: Vec<String>,
    /// Tag number of each word.
    pub tags: Vec<i32>,
    /// Whether the model reads each word.
    pub read: Vec<bool>,
}

/// A source of encoded sentences with their words.
pub(super) struct Tagged {
    pub(super) items: Labelled,
    pub(super) words: Vec<TaggedWords>,
}

impl Source for Tagged {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.items.get(sample, draw)
    }

    fn size(&self, sample: u64) -> usize {
        self.items.size(sample)
    }

    fn split(&self) -> Split {
        self.items.split()
    }

    fn tagged_words(&self, sample: u64) -> Option<&TaggedWords> {
        self.words.get(sample as usize)
    }
}

/// Encodes words one after the other, cut to `context` tokens; also returns the position of the first token
/// of each word, `None` for a word that has no token or lies beyond the context.
///
/// # Errors
/// If the tokenizer cannot encode a word, or the words have no token at all.
pub fn read<T: AsRef<str>>(
    words: &[T],
    context: usize,
    tokenizer: &Tokenizer,
) -> Result<(TextItem, Vec<Option<usize>>)> {
    let edges = tokenizer.special_token_layout();
    let edges = edges.as_ref();
    let (mut ids, mut firsts) = (Vec::new(), Vec::with_capacity(words.len()));
    for word in words {
        let word = word.as_ref();
        let encoded = match ids.is_empty() {
            true => tokenizer.encode(word)?,
            false => tokenizer.encode(&format!(" {word}"))?,
        };
        firsts.push((!encoded.is_empty()).then_some(ids.len()));
        ids.extend(encoded.into_iter().map(|id| id as i32));
    }
    let room = context.saturating_sub(edges.map_or(0, |edges| edges.len(false)));
    let before = edges.map_or(0, |edges| edges.before().len());
    let place = |first: Option<usize>| first.filter(|at| *at < room).map(|at| at + before);
    let firsts = firsts.into_iter().map(place).collect();
    Ok((framed(ids, None, context, edges)?, firsts))
}
