//! Dropout whose mask is a function of (seed, step, row, site, element), never of history: the same on every
//! device, for any micro-batching and any number of threads, and nothing to save for the backward pass.
//!
//! Elements: Srivastava et al. 2014. Whole rows: stochastic depth, Huang et al. 2016, arXiv:1603.09382.

use burn::tensor::Tensor;

use super::composed;
use crate::rng::{Purpose, Stream, unit};

/// Where a dropout stands in a run: everything that its mask depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropKey {
    /// Probability that an element is dropped; the kept ones are scaled by `1/(1−p)`.
    pub p: f64,
    /// Seed of the run.
    pub seed: u64,
    /// Optimizer step.
    pub step: u64,
    /// Index within the step's whole batch of the tensor's first row (dimension 0).
    pub first_row: u64,
    /// Number of this dropout within the model.
    pub site: u64,
}

impl DropKey {
    /// The stream of row `row` of the tensor.
    pub(super) fn stream(&self, purpose: Purpose, row: usize) -> Stream {
        let row = self.first_row + row as u64;
        Stream::new(self.seed, purpose, (self.step, row, self.site))
    }

    /// What an element with these random bits is multiplied by.
    #[inline]
    pub(super) fn factor(&self, word: u32) -> f32 {
        if unit(word) < self.p as f32 {
            0.0
        } else {
            1.0 / (1.0 - self.p as f32)
        }
    }

    /// The factors of the elements `first ..` of a row: element `e` takes word `e mod 4` of block `e / 4`.
    pub(super) fn fill(&self, row: usize, first: usize, factors: &mut [f32]) {
        let stream = self.stream(Purpose::Dropout, row);
        for (i, slot) in factors.iter_mut().enumerate() {
            let element = (first + i) as u64;
            *slot = self.factor(stream.block(element / 4)[(element % 4) as usize]);
        }
    }
}

/// Drops single elements of x `[B, S, D]`.
pub fn dropout(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    composed::dropout(x, key)
}

/// Drops whole rows (dimension 0) of x `[B, S, D]`.
pub fn drop_path(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    composed::drop_path(x, key)
}
