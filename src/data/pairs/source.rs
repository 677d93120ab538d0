//! Pairs as examples: framed by marks, filtered by length in training, cut short in evaluation.

use std::ops::Range;

use super::super::{Item, Source, Split};
use super::framing::{self, Framing};
use crate::data::text::cache::Tokens;
use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// Which training pairs are left out or cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Tokens of a source with its marks.
    pub max_len: usize,
    /// Of a target.
    pub max_target_len: usize,
    /// Cut longer texts instead of leaving them out.
    pub truncate: bool,
    /// The longer side over the shorter one.
    pub max_ratio: Option<f64>,
}

/// Tokens of one side of a split, and what stands around its texts.
pub(super) struct Side {
    pub tokens: Tokens,
    pub framing: Framing,
}

/// Why a pair is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A side has no token.
    Empty,
    /// A side has more tokens than it may have.
    Long,
    /// One side has too many times the tokens of the other.
    Unequal,
}

/// Some pairs, by their number and the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) pairs: usize,
    pub(super) first: usize,
}

impl Counted {
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
    /// Numbers of the pairs that are used.
    kept: Vec<u32>,
    /// Those that are not, by the reasons in their order.
    pub(super) left_out: [Counted; 3],
    /// Those with an empty side among the ones that are used.
    pub(super) empty: Counted,
    max_len: usize,
    max_target_len: usize,
    split: Split,
}

impl PairSource {
    /// The pairs of both sides, of which training leaves some out.
    pub(super) fn new(source: Side, target: Side, limits: Limits, split: Split) -> Self {
        let count = source.tokens.documents().min(target.tokens.documents());
        let marks = [source.framing.len(), target.framing.len()];
        let mut kept = Vec::new();
        let (mut left_out, mut empty) = ([Counted::default(); 3], Counted::default());
        for pair in 0..count {
            let spans = [source.tokens.span(pair), target.tokens.span(pair)];
            let lengths = spans.map(|span| span.len());
            let is_empty = lengths.contains(&0);
            let reason = match split {
                Split::Train => limits.reason(lengths, marks),
                // An empty text that is read alone has no partner.
                Split::Valid | Split::Test if is_empty && source.framing.is_alone() => {
                    Some(Reason::Empty)
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

    /// Whether some pairs are not used, or have an empty side.
    pub(super) fn has_gaps(&self) -> bool {
        let mut all = self.left_out.iter().chain([&self.empty]);
        all.any(|counted| counted.pairs > 0)
    }

    /// Pairs before any was left out.
    pub(super) fn all(&self) -> usize {
        self.source
            .tokens
            .documents()
            .min(self.target.tokens.documents())
    }

    /// Tokens of both sides of the pairs that are used, with their marks.
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

    /// Tokens of each side as [`Source::get`] gives them.
    fn lengths(&self, sample: u64) -> (usize, usize) {
        let (source, target) = self.spans(sample);
        (
            (source.len() + self.source.framing.len()).min(self.max_len),
            (target.len() + self.target.framing.len()).min(self.max_target_len),
        )
    }
}

impl Limits {
    /// Why a pair of so many tokens, with so many marks around them, is not trained on; nothing of one that is.
    fn reason(&self, [source, target]: [usize; 2], marks: [usize; 2]) -> Option<Reason> {
        let (short, long) = (source.min(target), source.max(target));
        let fits = source + marks[0] <= self.max_len && target + marks[1] <= self.max_target_len;
        let beyond = |ratio: f64| long as f64 > ratio * short as f64;
        if short == 0 {
            Some(Reason::Empty)
        } else if !fits && !self.truncate {
            Some(Reason::Long)
        } else {
            self.max_ratio
                .is_some_and(beyond)
                .then_some(Reason::Unequal)
        }
    }
}

/// Bytes of the targets behind their scored tokens, over the number of these. A target's end is scored too, and what stands in
/// its frame; one of more than `max_len` tokens with its marks is cut, and what is cut is not scored.
pub(super) fn bytes_per_scored_token(
    side: &Side,
    tokenizer: &Tokenizer,
    max_len: usize,
) -> Result<Option<f64>> {
    let (targets, marks) = (&side.tokens, side.framing.len());
    let most = max_len.saturating_sub(side.framing.before());
    let (mut scored, mut cut) = (0, 0);
    for target in (0..targets.documents()).map(|number| targets.span(number)) {
        // The mark that begins a target is read, not scored.
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
