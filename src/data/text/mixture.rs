//! Windows of several corpora, each drawn in proportion to its weight.

use super::windows::TextSource;
use crate::data::{Item, Source, Split};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// A source that draws a window's corpus from (seed, sample) and then its position in the corpus, so that a
/// resumed run draws the same windows.
pub(super) struct Mixture {
    corpora: Vec<TextSource>,
    /// Sums of the weights up to each corpus, over the sum of all.
    bounds: Vec<f64>,
    seed: u64,
}

impl Mixture {
    /// Builds the mixture of corpora with drawn windows, with a positive weight for each.
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

    /// Returns the index of the corpus that a sample is drawn from.
    fn corpus(&self, sample: u64) -> usize {
        let mut draws = Stream::new(self.seed, Purpose::Window, (sample, 1, 0));
        let at = f64::from(draws.uniform());
        let corpus = self.bounds.partition_point(|bound| *bound <= at);
        // The last bound may be below 1 by a rounding error.
        corpus.min(self.corpora.len() - 1)
    }
}

impl Source for Mixture {
    /// The number of windows in all corpora together.
    fn len(&self) -> usize {
        self.corpora.iter().map(Source::len).sum()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.corpora[self.corpus(sample)].get(sample, draw)
    }

    fn split(&self) -> Split {
        self.corpora[0].split()
    }

    fn is_endless(&self) -> bool {
        true
    }
}
