//! Metrics of generated text, of classes and of embeddings, equal to the implementations that researchers use.
//!
//! Text: [`bleu`], [`chrf`], [`ter`] (equal to sacreBLEU's), [`rouge`] (equal to Google's rouge-score) and
//! [`error_rate`] of transcripts (equal to jiwer's). Classes: [`classification`] and [`multi_label`] (equal to
//! scikit-learn's). Tags: [`tags`] (equal to seqeval's). Numbers: [`correlation`] (equal to SciPy's). Answers:
//! [`answers`] (equal to SQuAD's). Embeddings: [`retrieval`] (ranks as in sentence-transformers, except for ties) and
//! [`neighbours`].
//!
//! Every metric is an accumulator: `add` one segment or one prediction at a time, `merge` the parts of a split, then
//! ask for the score. Counts are whole numbers, so that neither the order of segments nor the cut into batches changes
//! a score; only ROUGE is a mean. [`metric`] tells whether higher or lower values of a metric are better.
//!
//! This module uses no tensors, files or models: callers pass texts or numbers.

pub mod answers;
pub mod bleu;
pub mod chrf;
pub mod classification;
pub mod correlation;
pub mod error_rate;
pub mod metric;
mod mteval;
pub mod multi_label;
pub mod neighbours;
mod ngrams;
mod porter;
pub mod predictions;
pub mod retrieval;
pub mod rouge;
pub mod tags;
pub mod ter;
mod tercom;
mod whitespace;

use std::fmt;

/// Precision, recall and their harmonic mean, each between 0 and 1; a ratio with the denominator 0 is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrecisionRecall {
    /// Share of the predictions that are right.
    pub precision: f64,
    /// Share of the true ones that were predicted.
    pub recall: f64,
    /// 2 P R / (P + R).
    pub f1: f64,
}

impl PrecisionRecall {
    /// Computes the scores from `hits` right ones among `predicted`, with `actual` true ones.
    pub fn of_counts(hits: u64, predicted: u64, actual: u64) -> Self {
        let precision = hits as f64 / predicted.max(1) as f64;
        let recall = hits as f64 / actual.max(1) as f64;
        let f1 = if hits == 0 {
            0.0
        } else {
            2.0 * precision * recall / (precision + recall)
        };
        Self {
            precision,
            recall,
            f1,
        }
    }

    /// Averages precision, recall and F1 separately; zeros for an empty list.
    pub fn mean(all: impl IntoIterator<Item = Self>) -> Self {
        let (mut sum, mut n) = (Self::default(), 0u64);
        for one in all {
            sum.accumulate(one);
            n += 1;
        }
        sum.over(n)
    }

    fn accumulate(&mut self, other: Self) {
        self.precision += other.precision;
        self.recall += other.recall;
        self.f1 += other.f1;
    }

    fn over(self, n: u64) -> Self {
        let n = n.max(1) as f64;
        Self {
            precision: self.precision / n,
            recall: self.recall / n,
            f1: self.f1 / n,
        }
    }
}

/// Range of the number of references per segment: the `nrefs` of a signature.
#[derive(Clone, Copy, Debug, Default)]
struct References {
    range: Option<(usize, usize)>,
}

impl References {
    /// Records a segment's number of references, which must not be 0.
    fn record(&mut self, n: usize) {
        assert!(n > 0, "a segment is scored against at least one reference");
        self.join(Some((n, n)));
    }

    fn merge(&mut self, other: Self) {
        self.join(other.range);
    }

    fn join(&mut self, other: Option<(usize, usize)>) {
        self.range = match (self.range, other) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, None) => one,
            (None, one) => one,
        };
    }
}

impl fmt::Display for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            None => f.write_str("0"),
            Some((least, most)) if least == most => write!(f, "{least}"),
            Some(_) => f.write_str("var"),
        }
    }
}

/// Returns the word for a switch in a signature.
fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

/// Returns the word for letter case in a signature.
fn case(lowercase: bool) -> &'static str {
    if lowercase { "lc" } else { "mixed" }
}
