//! The passages of a split: consecutive runs of tokens, or whole sentences of one document.

use std::ops::Range;
use std::sync::Arc;

use crate::data::text::ids::Ids;
use crate::data::text::sentences::Sentences;
use crate::error::Result;

/// A run of consecutive tokens of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Token ids.
    pub ids: Vec<i32>,
    /// Position after each sentence; the last is the passage's length. Only that one if the view needs no
    /// sentences.
    pub ends: Vec<usize>,
}

/// All passages of a split; together they cover its text.
pub(super) enum Passages {
    /// Passages of equal length; the last one may be shorter.
    Even {
        /// The text.
        ids: Arc<dyn Ids>,
        /// Length of a passage in tokens.
        length: usize,
    },
    /// Passages of whole sentences of one document; a sentence longer than a passage is split.
    OfDocuments {
        /// The text.
        sentences: Sentences,
        /// The passages, in order.
        pieces: Vec<Piece>,
    },
}

/// The tokens of a passage, and where its sentences begin.
pub(super) struct Piece {
    tokens: Range<usize>,
    /// Index of the sentence that it begins in.
    sentence: usize,
}

impl Passages {
    /// Builds passages of as many whole sentences of a document as fit into `longest` tokens.
    pub(super) fn of_documents(sentences: Sentences, longest: usize) -> Self {
        let mut pieces = Vec::new();
        for document in 0..sentences.documents() {
            let all = sentences.of_document(document);
            let mut next = all.start;
            let mut from = sentences.tokens(all.clone()).start;
            while next < all.end {
                let sentence = next;
                let mut to = from;
                while next < all.end && end(&sentences, next) - from <= longest {
                    to = end(&sentences, next);
                    next += 1;
                }
                if to == from {
                    to += longest;
                }
                pieces.push(Piece {
                    tokens: from..to,
                    sentence,
                });
                from = to;
            }
        }
        Self::OfDocuments { sentences, pieces }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Even { ids, length } => ids.len().div_ceil(*length),
            Self::OfDocuments { pieces, .. } => pieces.len(),
        }
    }

    /// Returns the token range of a passage.
    pub(super) fn tokens(&self, number: usize) -> Range<usize> {
        match self {
            Self::Even { ids, length } => {
                let from = number * length;
                from..ids.len().min(from + length)
            }
            Self::OfDocuments { pieces, .. } => pieces[number].tokens.clone(),
        }
    }

    /// Returns a passage.
    ///
    /// # Errors
    /// As for [`Ids::window`].
    pub(super) fn get(&self, number: usize) -> Result<Passage> {
        let tokens = self.tokens(number);
        Ok(match self {
            Self::Even { ids, .. } => Passage {
                ids: ids.window(tokens.start, tokens.len())?,
                ends: vec![tokens.len()],
            },
            Self::OfDocuments { sentences, pieces } => {
                let ends = (pieces[number].sentence..).map(|s| end(sentences, s));
                let inside = ends.take_while(|end| *end < tokens.end);
                let ends = inside.chain([tokens.end]).map(|end| end - tokens.start);
                Passage {
                    ends: ends.collect(),
                    ids: sentences.ids(tokens)?,
                }
            }
        })
    }
}

/// Returns the position after the last token of a sentence.
fn end(sentences: &Sentences, sentence: usize) -> usize {
    sentences.tokens(sentence..sentence + 1).end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::text::ids::InMemoryIds;

    #[test]
    fn passages_are_whole_sentences_of_a_document() {
        let ids = InMemoryIds {
            ids: (0..20).collect(),
            starts: Vec::new(),
        };
        // Sentences of 2, 3, 3 | 9 | 1, 2 tokens.
        let starts = vec![0, 2, 5, 8, 17, 18];
        let sentences = Sentences::new(Arc::new(ids), starts, vec![0, 3, 4]);
        let passages = Passages::of_documents(sentences, 5);
        let found: Vec<(Range<usize>, Vec<usize>)> = (0..passages.len())
            .map(|n| (passages.tokens(n), passages.get(n).unwrap().ends))
            .collect();
        let expected = [
            (0..5, vec![2, 5]),
            (5..8, vec![3]),
            (8..13, vec![5]),
            (13..17, vec![4]),
            (17..20, vec![1, 3]),
        ];
        assert_eq!(found, expected);
        assert_eq!(passages.get(1).unwrap().ids, [5, 6, 7]);
    }
}
