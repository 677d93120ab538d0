//! Pairs as examples: framed by marks, filtered by length in training, cut short in evaluation.

use std::ops::Range;

use super::super::{Item, PairItem, Source, Split};
use crate::data::text::cache::Tokens;
use crate::error::Result;
use crate::tokenizer::{Marks, Tokenizer};

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

/// Tokens of one side of a split, and the marks of its vocabulary.
pub(super) struct Side {
    pub tokens: Tokens,
    pub marks: Marks,
}

/// The pairs of a split.
pub(super) struct PairSource {
    source: Side,
    target: Side,
    /// Numbers of the pairs that are used.
    kept: Vec<u32>,
    max_len: usize,
    max_target_len: usize,
    split: Split,
}

/// Marks around a source: the one that ends it.
const SOURCE_MARKS: usize = 1;
/// Marks around a target: those that begin and end it.
const TARGET_MARKS: usize = 2;

impl PairSource {
    /// The pairs of both sides, of which training leaves some out.
    pub(super) fn new(source: Side, target: Side, limits: Limits, split: Split) -> Self {
        let count = source.tokens.documents().min(target.tokens.documents());
        let kept = |pair: &usize| {
            let (s, t) = (
                source.tokens.span(*pair).len(),
                target.tokens.span(*pair).len(),
            );
            split != Split::Train || limits.keep(s, t)
        };
        Self {
            kept: (0..count).filter(kept).map(|pair| pair as u32).collect(),
            source,
            target,
            max_len: limits.max_len,
            max_target_len: limits.max_target_len,
            split,
        }
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
            (source.len() + SOURCE_MARKS).min(self.max_len),
            (target.len() + TARGET_MARKS).min(self.max_target_len),
        )
    }
}

impl Limits {
    /// Whether a pair of so many tokens, marks not counted, is trained on.
    fn keep(&self, source: usize, target: usize) -> bool {
        let (short, long) = (source.min(target), source.max(target));
        let fits =
            source + SOURCE_MARKS <= self.max_len && target + TARGET_MARKS <= self.max_target_len;
        short > 0
            && (fits || self.truncate)
            && self
                .max_ratio
                .is_none_or(|ratio| long as f64 <= ratio * short as f64)
    }
}

/// A source: its ids and the mark that ends it, in `max_len` tokens.
pub(in super::super) fn frame_source(mut ids: Vec<i32>, marks: &Marks, max_len: usize) -> Vec<i32> {
    ids.truncate(max_len.saturating_sub(SOURCE_MARKS));
    ids.push(marks.end as i32);
    ids
}

/// A target: the mark that begins it, its ids, the mark that ends it. One that is cut to `max_len` tokens does
/// not end: a model shall not learn to stop in the middle.
pub(in super::super) fn frame_target(ids: &[i32], marks: &Marks, max_len: usize) -> Vec<i32> {
    let mut framed = Vec::with_capacity(ids.len() + TARGET_MARKS);
    framed.push(marks.begin as i32);
    framed.extend_from_slice(ids);
    framed.push(marks.end as i32);
    framed.truncate(max_len);
    framed
}

/// Bytes of the targets behind their scored tokens, over the number of these. A target's end is scored too; one of more
/// than `max_len` tokens with its marks is cut, and what is cut is not scored.
pub(super) fn bytes_per_scored_token(
    targets: &Tokens,
    tokenizer: &Tokenizer,
    max_len: usize,
) -> Result<Option<f64>> {
    // The mark that begins a target is read, not scored.
    let most = max_len.saturating_sub(1);
    let (mut scored, mut cut) = (0, 0);
    for target in (0..targets.documents()).map(|number| targets.span(number)) {
        scored += (target.len() + 1).min(most);
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
        Ok(Item::Pair(PairItem {
            source: frame_source(ids(&self.source, source)?, &self.source.marks, self.max_len),
            target: frame_target(
                &ids(&self.target, target)?,
                &self.target.marks,
                self.max_target_len,
            ),
        }))
    }

    fn size(&self, sample: u64) -> usize {
        let (source, target) = self.lengths(sample);
        source.max(target)
    }

    fn split(&self) -> Split {
        self.split
    }
}
