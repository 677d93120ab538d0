//! Draws masks, as a function of (seed, sample, draw).
//!
//! The number of scored tokens of a text is a share of its maskable tokens, rounded, and at least one. Words, spans and n-grams
//! stay whole: one that would exceed the number is skipped (a span ends before it, a shorter n-gram is tried), so slightly
//! fewer tokens may be scored. Special tokens are neither masked nor used as random replacements. All tokens of a span are
//! replaced in the same way; otherwise each token is replaced by its own draw.

use std::ops::Range;

use super::masking::{MaskingConfig, Unit};
use crate::data::text::words;
use crate::data::{NOT_SCORED, Split};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;

/// Returns the probabilities of span lengths 1, 2 …: geometric, cut off at the longest, with this mean.
fn span_lengths(mean: f64, longest: usize) -> Vec<f64> {
    let shares = |q: f64| -> Vec<f64> {
        let weights: Vec<f64> = (0..longest).map(|k| q.powi(k as i32)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    };
    let mean_of = |q: f64| -> f64 {
        let shares = shares(q);
        shares.iter().zip(1..).map(|(p, n)| p * f64::from(n)).sum()
    };
    // The mean rises with q from 1 to that of equal probabilities.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean_of(middle) < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    shares(low)
}

/// Returns the probabilities of n-grams of 1, 2 … words: p(n) = (1/n) / Σ 1/k (Lan et al. 2019, section 4.1).
fn ngram_lengths(longest: usize) -> Vec<f64> {
    let sum: f64 = (1..=longest).map(|n| 1.0 / n as f64).sum();
    (1..=longest).map(|n| 1.0 / n as f64 / sum).collect()
}

/// Number of places that are tried for an n-gram before a shorter one is.
const PLACES: usize = 20;

/// Draws `count` different numbers below `n`, with every set of them equally likely (Fisher–Yates).
pub(in crate::data) fn choose(n: usize, count: usize, stream: &mut Stream) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    let count = count.min(n);
    for i in 0..count {
        let other = i + stream.below((n - i) as u64) as usize;
        all.swap(i, other);
    }
    all.truncate(count);
    all
}

/// Returns how many of `n` tokens are scored.
pub(in crate::data) fn scored(n: usize, share: f64) -> usize {
    ((n as f64 * share).round() as usize).clamp(n.min(1), n)
}

/// Draws masks.
pub struct Masker {
    config: MaskingConfig,
    tokenizer: Tokenizer,
    mask: i32,
    /// Ids from which a random replacement is drawn.
    ordinary: Vec<i32>,
    lengths: Vec<f64>,
    seed: u64,
    split: Split,
    len: u64,
}

impl Masker {
    /// Builds a masker for a split of `len` examples.
    ///
    /// # Errors
    /// If the vocabulary has no mask token.
    pub fn new(
        config: &MaskingConfig,
        tokenizer: &Tokenizer,
        seed: u64,
        split: Split,
        len: usize,
    ) -> Result<Self> {
        let mask = tokenizer.mask().ok_or_else(|| {
            Error::usage(
                "the vocabulary has no mask token ([MASK], <mask>); use the vocabulary of a masked language model, or train one with [tokenizer]",
            )
        })?;
        let ids = 0..tokenizer.vocab_size() as u32;
        let lengths = match config.unit {
            Unit::Ngram => ngram_lengths(config.ngram()),
            Unit::Token | Unit::Word | Unit::Span => {
                let (mean, longest) = config.span();
                span_lengths(mean, longest)
            }
        };
        Ok(Self {
            config: config.clone(),
            tokenizer: tokenizer.clone(),
            mask: mask as i32,
            ordinary: ids
                .filter(|id| !tokenizer.is_special(*id))
                .map(|id| id as i32)
                .collect(),
            lengths,
            seed,
            split,
            len: len.max(1) as u64,
        })
    }

    /// Returns the number that a draw's mask depends on: the draw itself, or the number of the copy if masks are static.
    pub(super) fn mask_number(&self, draw: u64) -> u64 {
        match self.config.copies {
            None => draw,
            Some(copies) => draw / self.len % copies,
        }
    }

    /// Masks tokens of an example and returns the target of each position, or [`NOT_SCORED`].
    pub fn mask(&self, ids: &mut [i32], sample: u64, draw: u64) -> Vec<i32> {
        // Static masks have stream coordinates that dynamic ones never have.
        let kind = if self.config.copies.is_some() { 8 } else { 0 };
        let at = (sample, self.mask_number(draw), kind + self.split as u64);
        let mut stream = Stream::new(self.seed, Purpose::Masking, at);
        let words = self.words(ids);
        let count: usize = words.iter().map(Range::len).sum();
        let budget = scored(count, self.config.share);
        let mut targets = vec![NOT_SCORED; ids.len()];
        let groups = match self.config.unit {
            Unit::Token => {
                let positions: Vec<usize> = words.into_iter().flatten().collect();
                let chosen = choose(count, budget, &mut stream);
                let one = |i: usize| positions[i]..positions[i] + 1;
                chosen.into_iter().map(one).collect()
            }
            Unit::Word => whole_words(&words, budget, &mut stream),
            Unit::Span => self.spans(&words, budget, &mut stream),
            Unit::Ngram => self.ngrams(&words, budget, &mut stream),
        };
        for group in groups {
            let alike = self.config.unit == Unit::Span;
            let mut lot = stream.uniform();
            for position in group {
                targets[position] = ids[position];
                ids[position] = self.replacement(ids[position], lot, &mut stream);
                if !alike {
                    lot = stream.uniform();
                }
            }
        }
        targets
    }

    /// Returns the token that replaces a chosen one.
    fn replacement(&self, id: i32, lot: f32, stream: &mut Stream) -> i32 {
        let lot = f64::from(lot);
        if lot < self.config.masked {
            self.mask
        } else if lot < self.config.masked + self.config.random && !self.ordinary.is_empty() {
            self.ordinary[stream.below(self.ordinary.len() as u64) as usize]
        } else {
            id
        }
    }

    /// Returns the words of a text, without special tokens.
    fn words(&self, ids: &[i32]) -> Vec<Range<usize>> {
        words::words(ids, &self.tokenizer)
    }

    /// Draws non-overlapping spans of words until they hold `budget` tokens.
    fn spans(
        &self,
        words: &[Range<usize>],
        budget: usize,
        stream: &mut Stream,
    ) -> Vec<Range<usize>> {
        let mut taken = vec![false; words.len()];
        let mut spans = Vec::new();
        let mut left = budget;
        // Few starts are free once spans are placed: a bound on the attempts, reached only if words are long.
        for _ in 0..20 * words.len() {
            if left == 0 {
                break;
            }
            let mut length = self.length(stream);
            let first = stream.below(words.len() as u64) as usize;
            let mut end = first;
            while length > 0 && end < words.len() {
                let joined = end == first || words[end - 1].end == words[end].start;
                if taken[end] || !joined || words[end].len() > left {
                    break;
                }
                taken[end] = true;
                left -= words[end].len();
                length -= 1;
                end += 1;
            }
            if end > first {
                spans.push(words[first].start..words[end - 1].end);
            }
        }
        if spans.is_empty() {
            return whole_words(words, budget, stream);
        }
        spans
    }

    /// Draws non-overlapping n-grams of words until they hold `budget` tokens. The length is drawn before the place, so that
    /// long n-grams do not become rarer as more words are taken.
    fn ngrams(
        &self,
        words: &[Range<usize>],
        budget: usize,
        stream: &mut Stream,
    ) -> Vec<Range<usize>> {
        let mut taken = vec![false; words.len()];
        let mut ngrams = Vec::new();
        let mut left = budget;
        while left > 0 && !words.is_empty() {
            let longest = self.length(stream);
            let mut lengths = (1..=longest).rev();
            let found = lengths.find_map(|n| free_place(words, &taken, n, left, stream));
            let Some(found) = found else { break };
            taken[found.clone()].fill(true);
            let ngram = words[found.start].start..words[found.end - 1].end;
            left -= ngram.len();
            ngrams.push(ngram);
        }
        if ngrams.is_empty() {
            return whole_words(words, budget, stream);
        }
        ngrams
    }

    fn length(&self, stream: &mut Stream) -> usize {
        let mut lot = f64::from(stream.uniform());
        let below = self.lengths.iter().position(|share| {
            lot -= share;
            lot < 0.0
        });
        below.unwrap_or(self.lengths.len() - 1) + 1
    }
}

/// Draws a random place of `n` consecutive words that are all free, have no special token between them and hold at most `most`
/// tokens; `None` if no try finds one.
fn free_place(
    words: &[Range<usize>],
    taken: &[bool],
    n: usize,
    most: usize,
    stream: &mut Stream,
) -> Option<Range<usize>> {
    let last = words.len().checked_sub(n)?;
    (0..PLACES).find_map(|_| {
        let first = stream.below(last as u64 + 1) as usize;
        let found = first..first + n;
        let parts = &words[found.clone()];
        let joined = parts.windows(2).all(|pair| pair[0].end == pair[1].start);
        let tokens: usize = parts.iter().map(Range::len).sum();
        let free = !taken[found.clone()].contains(&true);
        (joined && free && tokens <= most).then_some(found)
    })
}

/// Draws words in random order that hold at most `budget` tokens together; a single word if every word holds
/// more.
fn whole_words(words: &[Range<usize>], budget: usize, stream: &mut Stream) -> Vec<Range<usize>> {
    let order = choose(words.len(), words.len(), stream);
    let mut left = budget;
    let mut chosen = Vec::new();
    for word in order.iter().map(|i| &words[*i]) {
        if word.len() <= left {
            left -= word.len();
            chosen.push(word.clone());
        }
    }
    if chosen.is_empty() {
        chosen.extend(order.first().map(|i| words[*i].clone()));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lengths_of_spans_are_those_of_spanbert() {
        // Joshi et al. 2019, section 3.1: p = 0.2, clipped at 10, mean 3.8.
        let lengths = span_lengths(3.8, 10);
        assert!((lengths[1] / lengths[0] - 0.8).abs() < 0.01, "{lengths:?}");
        assert!((lengths.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((span_lengths(2.0, 3)[0] - 1.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn the_lengths_of_ngrams_are_those_of_albert() {
        let lengths = ngram_lengths(3);
        for (share, of_eleven) in lengths.iter().zip([6.0, 3.0, 2.0]) {
            assert!((share - of_eleven / 11.0).abs() < 1e-12, "{lengths:?}");
        }
    }

    #[test]
    fn shares_are_rounded_and_one_token_is_scored_at_least() {
        let counts = [0, 1, 3, 10, 100, 126].map(|n| scored(n, 0.15));
        assert_eq!(counts, [0, 1, 1, 2, 15, 19]);
        let mut stream = Stream::new(1, Purpose::Split, (0, 0, 0));
        let mut chosen = choose(10, 10, &mut stream);
        chosen.sort_unstable();
        assert_eq!(chosen, (0..10).collect::<Vec<_>>());
    }
}
