//! What a forward pass carries beside its inputs: whether it trains, and where its random draws come from.
//!
//! Every dropout site of a pass has a number, given in the order in which sites are reached, so that its
//! mask is a function of (seed, step, row of the batch, site): the same for every split into micro-batches,
//! the same after a resume, the same on every device.

use crate::kernel::{self, DropKey};
use burn::tensor::Tensor;
use std::cell::Cell;

/// One forward pass through a model.
#[derive(Debug)]
pub struct Pass {
    draws: Option<Draws>,
    site: Cell<u64>,
}

/// The coordinates of the random draws of a training pass.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    /// The run's seed.
    pub seed: u64,
    /// Optimizer step, from 0.
    pub step: u64,
    /// Row of the step's batch that this micro-batch begins with.
    pub first_row: u64,
}

impl Pass {
    /// A pass without randomness: dropout does nothing.
    pub fn evaluation() -> Self {
        Self {
            draws: None,
            site: Cell::new(0),
        }
    }

    /// A training pass whose dropout draws from these coordinates.
    pub fn training(draws: Draws) -> Self {
        Self {
            draws: Some(draws),
            site: Cell::new(0),
        }
    }

    /// Whether it is a training pass.
    pub fn trains(&self) -> bool {
        self.draws.is_some()
    }

    /// The key of the next dropout site; `None` when nothing is to be dropped there.
    ///
    /// The site is counted even when `p` is 0, so that switching one dropout off leaves the others' masks.
    pub fn key(&self, p: f64) -> Option<DropKey> {
        let site = self.site.replace(self.site.get() + 1);
        let draws = self.draws.filter(|_| p > 0.0)?;
        Some(DropKey {
            p,
            seed: draws.seed,
            step: draws.step,
            first_row: draws.first_row,
            site,
        })
    }

    /// Dropout with probability `p` on `x` `[batch, seq, d]`.
    pub fn dropout(&self, x: Tensor<3>, p: f64) -> Tensor<3> {
        match self.key(p) {
            Some(key) => kernel::dropout(x, key),
            None => x,
        }
    }

    /// Drops whole rows of `x` `[batch, seq, d]` with probability `p` (stochastic depth, Huang et al. 2016).
    pub fn drop_path(&self, x: Tensor<3>, p: f64) -> Tensor<3> {
        match self.key(p) {
            Some(key) => kernel::drop_path(x, key),
            None => x,
        }
    }
}
