//! Dropout whose mask is a function of (seed, step, row, site, element), never of history. The mask is the same on
//! every device, for any micro-batching and any number of threads, and nothing is saved for the backward pass.
//!
//! Elements: Srivastava et al. 2014. Whole rows: stochastic depth, Huang et al. 2016, arXiv:1603.09382.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{extension::KernelOps, has_kernels};
use crate::rng::{Purpose, Stream};

/// The key of a dropout: everything that its mask depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropKey {
    /// Probability that an element is dropped; kept elements are scaled by `1/(1−p)`.
    pub p: f64,
    /// Seed of the run.
    pub seed: u64,
    /// Optimizer step.
    pub step: u64,
    /// Index of the tensor's first row (dimension 0) within the step's whole batch.
    pub first_row: u64,
    /// Index of this dropout within the model.
    pub site: u64,
}

impl DropKey {
    /// Returns the random stream of row `row` of the tensor.
    pub(super) fn stream(&self, purpose: Purpose, row: usize) -> Stream {
        let row = self.first_row + row as u64;
        Stream::new(self.seed, purpose, (self.step, row, self.site))
    }

    /// Returns the threshold below which a random word drops its element: `p·2³²`, rounded to 24 bits.
    pub(super) fn threshold(&self) -> u32 {
        let p = self.p.clamp(0.0, 1.0);
        (p * f64::from(1 << 24))
            .round()
            .min(f64::from((1 << 24) - 1)) as u32
            * 256
    }

    /// Returns the factor of an element with this random word.
    #[inline]
    pub(super) fn factor(&self, word: u32) -> f32 {
        if word < self.threshold() {
            0.0
        } else {
            self.keep_scale()
        }
    }

    /// Returns the factor of kept elements.
    pub(super) fn keep_scale(&self) -> f32 {
        if self.p < 1.0 {
            1.0 / (1.0 - self.p as f32)
        } else {
            0.0
        }
    }

    /// Fills `factors` with the factors of the elements `first ..` of a row. Elements come in groups of 64, made of
    /// 16 blocks: element `e` takes word `(e mod 64) / 16` of block `16·(e / 64) + e mod 16`, so that registers fill
    /// in order.
    pub(super) fn fill(&self, row: usize, first: usize, factors: &mut [f32]) {
        let stream = self.stream(Purpose::Dropout, row);
        let (mut next, mut rest) = (first, factors);
        while !rest.is_empty() {
            let (group, skip) = (next / GROUP, next % GROUP);
            let words = group_words(&stream, group as u64);
            let len = rest.len().min(GROUP - skip);
            let (now, later) = rest.split_at_mut(len);
            for (slot, word) in now.iter_mut().zip(&words[skip..]) {
                *slot = self.factor(*word);
            }
            next += len;
            rest = later;
        }
    }
}

/// Number of elements that share 16 blocks of random words.
const GROUP: usize = 64;

/// Returns the random words of one group, in the order of its elements.
#[inline(always)]
fn group_words(stream: &Stream, group: u64) -> [u32; GROUP] {
    let mut words = [0; GROUP];
    for block in 0..16 {
        let drawn = stream.block(group * 16 + block as u64);
        for (i, word) in drawn.into_iter().enumerate() {
            words[i * 16 + block] = word;
        }
    }
    words
}

/// Applies dropout to the elements of x `[B, S, D]`.
pub fn dropout(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    fused_or_composed(x, key, false, composed::dropout)
}

/// Drops whole rows (dimension 0) of x `[B, S, D]` (stochastic depth).
pub fn drop_path(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    fused_or_composed(x, key, true, composed::drop_path)
}

fn fused_or_composed(
    x: Tensor<3>,
    key: DropKey,
    rows: bool,
    composed: fn(Tensor<3>, DropKey) -> Tensor<3>,
) -> Tensor<3> {
    if key.p <= 0.0 {
        return x;
    }
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        return Tensor::from_dispatch(Dispatch::dropped(x.into_dispatch(), key, rows));
    }
    let _ = rows;
    composed(x, key)
}
