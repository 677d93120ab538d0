//! Builds pairs of segments: does the second one follow the first?
//!
//! A document is divided into chunks of sentences that hold a target length: the maximum, or for one chunk in
//! ten a random shorter one. Each time an example is drawn, its chunk is divided in two at a random sentence.
//! - next sentence (Devlin et al., arXiv:1810.04805, `create_pretraining_data`): half of the time the second
//!   segment is instead taken from a random place of another document, up to the target length; label 0
//!   follows, 1 random.
//! - sentence order (Lan et al., arXiv:1909.11942): half of the time the two are swapped; label 0 in order, 1
//!   swapped.
//!
//! A pair that is too long loses tokens from the beginning or the end of its longer segment, at random.
//! Unlike in BERT's script, every chunk has at least two sentences, so that labels are balanced. A sentence
//! that a random segment displaces comes back in another epoch rather than in the next example, so that an
//! epoch has a fixed number of examples. A document of one sentence begins no pair; its sentence may be a
//! random second segment.

use std::ops::Range;

use super::masking::Pairs;
use crate::data::Split;
use crate::data::text::sentences::Sentences;
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};

/// Share of the chunks with a shorter target.
const SHORT_TARGET_SHARE: f32 = 0.1;

/// How pairs are made.
pub(super) struct Pairing {
    /// Relation of the two segments, which determines the labels.
    pub(super) pairs: Pairs,
    /// Maximum number of tokens in both segments together.
    pub(super) most: usize,
    pub(super) seed: u64,
    pub(super) split: Split,
}

/// Consecutive sentences of a document, at least two.
pub(super) struct Chunk {
    document: u32,
    sentences: Range<u32>,
    /// Target length in tokens.
    target: u32,
}

/// Two segments as token ranges, with the label of their relation.
pub(super) struct Pair {
    pub(super) segments: [Range<usize>; 2],
    pub(super) label: i32,
}

impl Pairing {
    /// Returns the chunks of all documents, in order.
    ///
    /// # Errors
    /// If no document has two sentences, or there is a single document where another one is needed.
    pub(super) fn chunks(&self, sentences: &Sentences) -> Result<Vec<Chunk>> {
        let documents = sentences.documents();
        let split = self.split.name();
        if self.pairs == Pairs::NextSentence && documents < 2 {
            return Err(Error::usage(format!(
                "[data] the {split} split is a single document, but pairs = \"next_sentence\" draws random sentences from other documents; set \
                 documents = \"blank_lines\", documents = \"wikitext\" or document_separator, or use pairs = \"sentence_order\""
            )));
        }
        let mut chunks = Vec::new();
        for document in 0..documents {
            self.of_document(sentences, document, &mut chunks);
        }
        if chunks.is_empty() {
            return Err(Error::usage(format!(
                "[data] no document of the {split} split has two sentences, so there are no pairs; a sentence ends at the end of a line or at `. `, \
                 and document_separator separates documents"
            )));
        }
        Ok(chunks)
    }

    fn of_document(&self, sentences: &Sentences, document: usize, chunks: &mut Vec<Chunk>) {
        let at = (document as u64, u64::MAX, self.split as u64);
        let mut stream = Stream::new(self.seed, Purpose::Pairing, at);
        let all = sentences.of_document(document);
        let mut from = all.start;
        while all.end - from > 1 {
            let target = if stream.uniform() < SHORT_TARGET_SHARE {
                2 + stream.below(self.most as u64 - 1) as usize
            } else {
                self.most
            };
            let mut to = from + 2;
            while to < all.end && sentences.tokens(from..to).len() < target {
                to += 1;
            }
            chunks.push(Chunk {
                document: document as u32,
                sentences: from as u32..to as u32,
                target: target as u32,
            });
            // A single sentence that is left over forms a chunk with the one before it.
            from = if all.end - to == 1 { to - 1 } else { to };
        }
    }

    /// Returns the pair of a chunk for draw number `draw`.
    pub(super) fn pair(
        &self,
        sentences: &Sentences,
        chunk: &Chunk,
        sample: u64,
        draw: u64,
    ) -> Pair {
        let at = (sample, draw, self.split as u64);
        let mut stream = Stream::new(self.seed, Purpose::Pairing, at);
        let all = chunk.sentences.start as usize..chunk.sentences.end as usize;
        let middle = all.start + 1 + stream.below(all.len() as u64 - 1) as usize;
        let first = sentences.tokens(all.start..middle);
        let changed = stream.below(2) == 1;
        let second = if changed && self.pairs == Pairs::NextSentence {
            let wanted = (chunk.target as usize).saturating_sub(first.len());
            random_other_segment(sentences, chunk.document as usize, wanted, &mut stream)
        } else {
            sentences.tokens(middle..all.end)
        };
        let mut segments = [first, second];
        self.shorten(&mut segments, &mut stream);
        if changed && self.pairs == Pairs::SentenceOrder {
            segments.swap(0, 1);
        }
        Pair {
            segments,
            label: i32::from(changed),
        }
    }

    /// Removes tokens from the longer segment, at its beginning or end, until both fit.
    fn shorten(&self, segments: &mut [Range<usize>; 2], stream: &mut Stream) {
        while segments[0].len() + segments[1].len() > self.most {
            let longer = usize::from(segments[1].len() >= segments[0].len());
            if stream.next_u32() & 1 == 0 {
                segments[longer].start += 1;
            } else {
                segments[longer].end -= 1;
            }
        }
    }
}

/// Takes sentences from a random place of a random other document until they hold `wanted` tokens or the
/// document ends.
fn random_other_segment(
    sentences: &Sentences,
    document: usize,
    wanted: usize,
    stream: &mut Stream,
) -> Range<usize> {
    let other = stream.below(sentences.documents() as u64 - 1) as usize;
    let other = sentences.of_document(other + usize::from(other >= document));
    let from = other.start + stream.below(other.len() as u64) as usize;
    let mut to = from + 1;
    while to < other.end && sentences.tokens(from..to).len() < wanted {
        to += 1;
    }
    sentences.tokens(from..to)
}
