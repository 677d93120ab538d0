//! Windows of several corpora, each drawn as often as its weight says.

use super::windows::TextSource;
use crate::data::{Item, Source, Split};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// A window's corpus is drawn from (seed, sample), then its place in the corpus, so that a run that goes on draws what it
/// would have drawn.
pub(super) struct Mixture {
    corpora: Vec<TextSource>,
    /// Sums of the weights up to each corpus, over the sum of all.
    bounds: Vec<f64>,
    seed: u64,
}

impl Mixture {
    /// Corpora of drawn windows, with a positive weight for each.
    pub(super) fn new(corpora: Vec<TextSource>, weights: &[f64], seed: u64) -> Self {
        assert_eq!(corpora.len(), weights.len(), "a weight for each corpus");
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let bounds = weights.iter().map(|weight| {
            sum += weight / total;
            sum
        });
        Self {
            bounds: bounds.collect(),
            corpora,
            seed,
        }
    }

    /// The number of the corpus that a sample is drawn from.
    fn corpus(&self, sample: u64) -> usize {
        let mut draws = Stream::new(self.seed, Purpose::Window, (sample, 1, 0));
        let at = f64::from(draws.uniform());
        let corpus = self.bounds.partition_point(|bound| *bound <= at);
        // The last bound may be a rounding below 1.
        corpus.min(self.corpora.len() - 1)
    }
}

impl Source for Mixture {
    /// As many windows as all corpora have.
    fn len(&self) -> usize {
        self.corpora.iter().map(Source::len).sum()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.corpora[self.corpus(sample)].get(sample, draw)
    }

    fn split(&self) -> Split {
        self.corpora[0].split()
    }

    fn drawn(&self) -> bool {
        true
    }
}
