//! Span corruption (Raffel et al. 2019, arXiv:1910.10683, sections 3.1.4 and 3.3.4): each span that is
//! removed from a text is replaced by a sentinel, and the target is each sentinel followed by the tokens of
//! its span.
//!
//! Of n tokens, round(share · n) are noise, in round(noise / mean span) spans. Both depend only on n, so that
//! all full passages give sources and targets of the same length. Noise and the rest are each divided into
//! that many segments at random positions, and the segments alternate, beginning with the rest
//! (`random_spans_noise_mask` of the T5 package, after its definition). A passage is as long as it can be for
//! its source to fit into the context.

use super::{Corruption, Passage};
use crate::data::PairItem;
use crate::error::{Error, Result};
use crate::faults::MAX_POSITIONS;
use crate::rng::Stream;
use crate::tokenizer::sentinels::sentinel;
use crate::tokenizer::{Marks, Tokenizer};

/// Which spans are removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanConfig {
    /// Share of the tokens that are removed.
    pub share: f64,
    /// Mean length of a span in tokens.
    pub mean_span: f64,
}

impl Default for SpanConfig {
    fn default() -> Self {
        Self {
            share: 0.15,
            mean_span: 3.0,
        }
    }
}

/// The token counts of a corrupted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of the original text.
    pub text: usize,
    /// Tokens that are removed.
    pub noise: usize,
    /// Number of spans that they form.
    pub spans: usize,
}

impl Counts {
    /// Returns the length of the corrupted text: the remaining tokens, a sentinel for each span, and the end
    /// token.
    pub fn source(&self) -> usize {
        self.text - self.noise + self.spans + 1
    }

    /// Returns the number of scored target tokens: the spans with their sentinels, and the end token.
    pub fn target(&self) -> usize {
        self.noise + self.spans + 1
    }
}

/// Number of sentinels in T5's vocabulary; a vocabulary that is built here gets at least as many.
const T5_SENTINELS: usize = 100;
/// A shorter context has no room for a token, a span and the end token.
const LEAST_CONTEXT: usize = 4;

impl SpanConfig {
    /// Returns the counts for a text of `text` tokens, taken as at least two: one of each sort. Ties are
    /// rounded to even, in single precision, as in the original definition.
    pub fn counts(&self, text: usize) -> Counts {
        let text = text.max(2);
        let round = |x: f32| x.round_ties_even() as usize;
        let noise = round(text as f32 * self.share as f32).clamp(1, text - 1);
        let spans = round(noise as f32 / self.mean_span as f32).max(1);
        Counts {
            text,
            noise,
            spans: spans.min(text - noise),
        }
    }

    /// Returns the counts for the longest text whose source and target fit into `context` tokens.
    pub fn max_counts(&self, context: usize) -> Counts {
        let fits = |text: usize| self.counts(text).source() <= context;
        let mut text = context.saturating_sub(1);
        while fits(text + 1) {
            text += 1;
        }
        match self.counts(text) {
            // With a share of one half, an odd number of tokens may make the target too long.
            counts if counts.target() > context => self.counts(text - 1),
            counts => counts,
        }
    }

    /// All faults of its keys, each with its remedy.
    pub(super) fn faults(&self, context: usize) -> Vec<String> {
        let Self { share, mean_span } = *self;
        let mut faults = Vec::new();
        if !(share > 0.0 && share <= 0.5) {
            faults.push(format!(
                "[task] share = {share} must be above 0 and at most 0.5: a target must not be longer than its source"
            ));
        }
        if !(mean_span >= 1.0 && mean_span.is_finite()) {
            faults.push(format!(
                "[task] mean_span = {mean_span} must be 1 or more: a span has at least one token"
            ));
        }
        if context < LEAST_CONTEXT {
            faults.push(format!(
                "[data] context = {context} is too short for a text with a span removed; the minimum is {LEAST_CONTEXT}"
            ));
        }
        faults
    }

    /// Returns the fault of a mean span that no text can have: a span cannot be longer than all noise of the
    /// longest text. It is checked when [`Self::faults`] has none.
    pub(super) fn mean_fault(&self, context: usize) -> Option<String> {
        if context > MAX_POSITIONS {
            return None;
        }
        let Self { share, mean_span } = *self;
        let one_span = Self {
            mean_span: f64::INFINITY,
            ..*self
        };
        let Counts { text, noise, .. } = one_span.max_counts(context);
        let allowed = match noise {
            1 => "be 1".to_owned(),
            _ => format!("be between 1 and {noise}"),
        };
        (mean_span > noise as f64).then(|| {
            format!(
                "[task] mean_span = {mean_span} must {allowed}: share = {share} removes {noise} of the {text} tokens of the \
                 longest text for [data] context = {context}"
            )
        })
    }

    /// Returns the sentinels, the last one first, so that the first has the highest id, as in T5's
    /// vocabulary.
    pub(super) fn special_tokens(&self, context: usize) -> Vec<String> {
        let count = self.max_counts(context).spans.max(T5_SENTINELS);
        (0..count).rev().map(sentinel).collect()
    }

    /// Builds the corruption for a vocabulary.
    ///
    /// # Errors
    /// If the vocabulary has fewer sentinels than a text has spans.
    pub(super) fn corruption(
        &self,
        tokenizer: &Tokenizer,
        marks: Marks,
        context: usize,
    ) -> Result<Spans> {
        let counts = self.max_counts(context);
        let sentinels = tokenizer.sentinels(counts.spans);
        let (wanted, found) = (counts.spans, sentinels.len());
        if found < wanted {
            return Err(Error::usage(format!(
                "[task] a text of {} tokens has {wanted} spans, but the vocabulary has {found} sentinels ({}, {} …); {}",
                counts.text,
                sentinel(0),
                sentinel(1),
                match found {
                    0 => "use the vocabulary of a T5 model, or let [tokenizer] train one".into(),
                    _ => format!(
                        "use longer spans, a smaller share, or a context with at most {found} spans"
                    ),
                }
            )));
        }
        Ok(Spans {
            config: *self,
            passage: counts.text,
            marks,
            sentinels: sentinels.into_iter().map(|id| id as i32).collect(),
        })
    }
}

/// Returns which tokens of a text are noise. `shuffle` permutes the flags that tell whether to cut between
/// two tokens, given with the cuts first: once for the noise, then for the rest.
pub fn mask(counts: Counts, mut shuffle: impl FnMut(&mut [bool])) -> Vec<bool> {
    let noise = segments(counts.noise, counts.spans, &mut shuffle);
    let rest = segments(counts.text - counts.noise, counts.spans, &mut shuffle);
    let mut mask = Vec::with_capacity(counts.text);
    for (rest, noise) in rest.into_iter().zip(noise) {
        mask.resize(mask.len() + rest, false);
        mask.resize(mask.len() + noise, true);
    }
    mask
}

/// Returns the lengths of `count` non-empty segments of `n` tokens.
fn segments(n: usize, count: usize, shuffle: &mut impl FnMut(&mut [bool])) -> Vec<usize> {
    let mut cuts: Vec<bool> = (1..n).map(|place| place < count).collect();
    shuffle(&mut cuts);
    let mut lengths = vec![1];
    for cut in cuts {
        match lengths.last_mut() {
            Some(length) if !cut => *length += 1,
            _ => lengths.push(1),
        }
    }
    lengths
}

/// Returns the corrupted text and its target, without begin and end tokens. A sentinel replaces each span of
/// noise in the text, and each stretch of the rest in the target.
///
/// # Panics
/// If there are fewer sentinels than spans.
pub fn source_and_target(ids: &[i32], mask: &[bool], sentinels: &[i32]) -> [Vec<i32>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    let mut begun = [0; 2];
    let mut before = None;
    for (id, noise) in ids.iter().zip(mask.iter().copied()) {
        let (holds, other) = (usize::from(noise), usize::from(!noise));
        if before != Some(noise) {
            sides[other].push(sentinels[begun[other]]);
            begun[other] += 1;
        }
        sides[holds].push(*id);
        before = Some(noise);
    }
    sides
}

/// Span corruption of passages of one vocabulary and context.
pub(super) struct Spans {
    config: SpanConfig,
    passage: usize,
    marks: Marks,
    sentinels: Vec<i32>,
}

impl Corruption for Spans {
    fn passage(&self) -> usize {
        self.passage
    }

    fn pair(&self, passage: &Passage, stream: &mut Stream) -> PairItem {
        let counts = self.config.counts(passage.ids.len());
        let mut noise = mask(counts, |flags| {
            // Fisher–Yates shuffle.
            for last in (1..flags.len()).rev() {
                flags.swap(last, stream.below(last as u64 + 1) as usize);
            }
        });
        // The mask of a single token is made for two.
        noise.truncate(passage.ids.len());
        let [mut source, target] = source_and_target(&passage.ids, &noise, &self.sentinels);
        let mut target = [&[self.marks.begin as i32][..], &target].concat();
        source.push(self.marks.end as i32);
        target.push(self.marks.end as i32);
        PairItem { source, target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_made_of_the_shuffled_flags() {
        let spans = SpanConfig::default();
        let counts = spans.counts(20);
        let (noise, spans) = (3, 1);
        assert_eq!((counts.noise, counts.spans), (noise, spans));
        assert_eq!(mask(counts, |_| ())[17..], [true; 3]);
        let two = Counts { spans: 2, ..counts };
        let mut turns = 0;
        let mask = mask(two, |flags| {
            assert_eq!(flags.iter().filter(|cut| **cut).count(), 1);
            turns += 1;
            flags.rotate_right(turns);
        });
        // Noise 2 + 1, the rest 3 + 14.
        let lengths = [(false, 3), (true, 2), (false, 14), (true, 1)];
        let expected: Vec<bool> = lengths
            .iter()
            .flat_map(|(noise, n)| vec![*noise; *n])
            .collect();
        assert_eq!(mask, expected);
    }

    #[test]
    fn passages_fill_the_context() {
        for context in LEAST_CONTEXT..700 {
            for (share, mean_span) in [(0.15, 3.0), (0.15, 1.0), (0.5, 3.0), (0.5, 1.0)] {
                let spans = SpanConfig { share, mean_span };
                let counts = spans.max_counts(context);
                assert!(counts.source() <= context && counts.target() <= context);
                let longer = spans.counts(counts.text + 1);
                assert!(longer.source() > context || longer.target() > context);
                assert!(counts.spans <= counts.noise.min(counts.text - counts.noise));
            }
        }
        // A mean span equal to all noise gives one span, as any longer mean does.
        let mean = |mean_span| SpanConfig {
            share: 0.15,
            mean_span,
        };
        for context in LEAST_CONTEXT..700 {
            let one = mean(f64::INFINITY).max_counts(context);
            assert_eq!(mean(one.noise as f64).max_counts(context), one);
            assert_eq!(mean(one.noise as f64).mean_fault(context), None);
            assert!(mean(one.noise as f64 + 0.5).mean_fault(context).is_some());
        }
        // The numbers of T5's training.
        let t5 = SpanConfig::default().max_counts(512);
        assert_eq!((t5.text, t5.source(), t5.target()), (568, 512, 114));
    }
}
