//! The source of pairs: with special tokens, filtered by length in training, cut in evaluation.

use std::ops::Range;

use super::super::{Item, Source, Split};
use super::framing::{self, Framing};
use crate::data::text::cache::TokenCache;
use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// Which training pairs are left out or cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum length of a source in tokens, with its special tokens.
    pub max_len: usize,
    /// Maximum length of a target in tokens, with its special tokens.
    pub max_target_len: usize,
    /// Whether longer texts are cut instead of left out.
    pub truncate: bool,
    /// Maximum ratio of the longer side to the shorter one.
    pub max_ratio: Option<f64>,
}

/// The tokens of one side of a split, and the special tokens around its texts.
pub(super) struct Side {
    pub tokens: TokenCache,
    pub framing: Framing,
}

/// The reason why a pair is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// A side has no token.
    Empty,
    /// A side has more tokens than it may have.
    Long,
    /// One side has more than `max_ratio` times the tokens of the other.
    Unequal,
}

/// A number of pairs, and the index of the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PairCount {
    pub(super) pairs: usize,
    pub(super) first: usize,
}

impl PairCount {
    fn add(&mut self, pair: usize) {
        if self.pairs == 0 {
            self.first = pair;
        }
        self.pairs += 1;
    }
}

/// The pairs of a split.
pub(super) struct PairSource {
    source: Side,
    target: Side,
    /// Indices of the pairs that are used.
    kept: Vec<u32>,
    /// Pairs that are left out, by [`Reason`] in its order.
    pub(super) left_out: [PairCount; 3],
    /// Used pairs with an empty side.
    pub(super) empty: PairCount,
    max_len: usize,
    max_target_len: usize,
    split: Split,
}

impl PairSource {
    /// Selects the pairs of a split; training leaves some of them out.
    pub(super) fn new(source: Side, target: Side, limits: Limits, split: Split) -> Self {
        let count = source.tokens.documents().min(target.tokens.documents());
        let marks = [source.framing.len(), target.framing.len()];
        let mut kept = Vec::new();
        let (mut left_out, mut empty) = ([PairCount::default(); 3], PairCount::default());
        for pair in 0..count {
            let spans = [source.tokens.span(pair), target.tokens.span(pair)];
            let lengths = spans.map(|span| span.len());
            let is_empty = lengths.contains(&0);
            let reason = match split {
                Split::Train => limits.reason(lengths, marks),
                // An empty text has no counterpart to compare with, if texts are encoded separately.
                Split::Valid | Split::Test if is_empty && source.framing.is_separate() => {
                    Some(DropReason::Empty)
                }
                Split::Valid | Split::Test => None,
            };
            match reason {
                Some(reason) => left_out[reason as usize].add(pair),
                None => {
                    if is_empty {
                        empty.add(pair);
                    }
                    kept.push(pair as u32);
                }
            }
        }
        Self {
            kept,
            left_out,
            empty,
            source,
            target,
            max_len: limits.max_len,
            max_target_len: limits.max_target_len,
            split,
        }
    }

    /// Whether any pair is left out or has an empty side.
    pub(super) fn has_gaps(&self) -> bool {
        let mut all = self.left_out.iter().chain([&self.empty]);
        all.any(|counted| counted.pairs > 0)
    }

    /// Returns the number of pairs before any was left out.
    pub(super) fn all(&self) -> usize {
        self.source
            .tokens
            .documents()
            .min(self.target.tokens.documents())
    }

    /// Returns the number of tokens on both sides of the used pairs, with their special tokens.
    pub(super) fn tokens(&self) -> u64 {
        let samples = 0..self.kept.len() as u64;
        samples
            .map(|sample| {
                let (source, target) = self.lengths(sample);
                (source + target) as u64
            })
            .sum()
    }

    fn spans(&self, sample: u64) -> (Range<usize>, Range<usize>) {
        let pair = self.kept[sample as usize] as usize;
        (self.source.tokens.span(pair), self.target.tokens.span(pair))
    }

    /// Returns the tokens of each side as in the examples of [`Source::get`].
    fn lengths(&self, sample: u64) -> (usize, usize) {
        let (source, target) = self.spans(sample);
        (
            (source.len() + self.source.framing.len()).min(self.max_len),
            (target.len() + self.target.framing.len()).min(self.max_target_len),
        )
    }
}

impl Limits {
    /// Returns the reason why a pair of these lengths, with this many special tokens around them, is not
    /// trained on; `None` if it is.
    fn reason(&self, [source, target]: [usize; 2], marks: [usize; 2]) -> Option<DropReason> {
        let (short, long) = (source.min(target), source.max(target));
        let fits = source + marks[0] <= self.max_len && target + marks[1] <= self.max_target_len;
        let beyond = |ratio: f64| long as f64 > ratio * short as f64;
        if short == 0 {
            Some(DropReason::Empty)
        } else if !fits && !self.truncate {
            Some(DropReason::Long)
        } else {
            self.max_ratio
                .is_some_and(beyond)
                .then_some(DropReason::Unequal)
        }
    }
}

/// Returns the bytes of the target texts over the number of scored tokens. The end token and the other
/// special tokens of a target are scored too. A target of more than `max_len` tokens with its special tokens
/// is cut, and the part that is cut off is not counted.
pub(super) fn bytes_per_scored_token(
    side: &Side,
    tokenizer: &Tokenizer,
    max_len: usize,
) -> Result<Option<f64>> {
    let (targets, marks) = (&side.tokens, side.framing.len());
    let most = max_len.saturating_sub(side.framing.before());
    let (mut scored, mut cut) = (0, 0);
    for target in (0..targets.documents()).map(|number| targets.span(number)) {
        // The begin token of a target is read, not scored.
        scored += (target.len() + marks).min(max_len).saturating_sub(1);
        let rest = (target.start + most).min(target.end)..target.end;
        let rest = targets.window(rest.start, rest.len())?.into_iter();
        cut += rest.map(|id| tokenizer.bytes_of(id as u32)).sum::<usize>();
    }
    let bytes = (targets.text_bytes() as usize).saturating_sub(cut);
    Ok((scored > 0).then(|| bytes as f64 / scored as f64))
}

impl Source for PairSource {
    fn len(&self) -> usize {
        self.kept.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let (source, target) = self.spans(sample);
        let ids = |side: &Side, span: Range<usize>| side.tokens.window(span.start, span.len());
        let texts = [ids(&self.source, source)?, ids(&self.target, target)?];
        let framings = [&self.source.framing, &self.target.framing];
        let longest = [self.max_len, self.max_target_len];
        Ok(Item::Pair(framing::pair(framings, texts, longest)))
    }

    fn size(&self, sample: u64) -> usize {
        let (source, target) = self.lengths(sample);
        source.max(target)
    }

    fn split(&self) -> Split {
        self.split
    }
}
