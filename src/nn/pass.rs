//! What a forward pass carries beside its inputs: whether it trains, where its random draws come from, and what is
//! to be read of it on the way.
//!
//! Every dropout site of a pass has a number, given in the order in which sites are reached, so that its
//! mask is a function of (seed, step, row of the batch, site): the same for every split into micro-batches,
//! the same after a resume, the same on every device.

use super::probe::{Probe, Readings, Sample, Wanted};
use crate::kernel::{self, DropKey};
use burn::tensor::Tensor;
use std::cell::Cell;
use std::fmt::Display;

/// One forward pass through a model.
#[derive(Debug)]
pub struct Pass {
    draws: Option<Draws>,
    site: Cell<u64>,
    probe: Option<Probe>,
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
            probe: None,
        }
    }

    /// A training pass whose dropout draws from these coordinates.
    pub fn training(draws: Draws) -> Self {
        Self {
            draws: Some(draws),
            site: Cell::new(0),
            probe: None,
        }
    }

    /// Whether it is a training pass.
    pub fn trains(&self) -> bool {
        self.draws.is_some()
    }

    /// The same pass, of which this is read; attention in one row of the batch.
    pub fn watched(mut self, wanted: Wanted, sample: Sample) -> Self {
        self.probe = Some(Probe::new(wanted, sample));
        self
    }

    /// What reads it on the way, when somebody watches.
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// What was read of it.
    pub fn readings(&self) -> Option<Readings> {
        self.probe.as_ref().map(Probe::readings)
    }

    /// Does the work of a part of a network, `encoder` say, under whose name readings are noted.
    pub fn within<T>(&self, part: impl Display, work: impl FnOnce() -> T) -> T {
        match &self.probe {
            Some(probe) => probe.within(part, work),
            None => work(),
        }
    }

    /// Does the work of a block, `blocks.3`, and has the stream that leaves it read.
    pub fn block<const D: usize>(
        &self,
        name: impl Display,
        work: impl FnOnce() -> Tensor<D>,
    ) -> Tensor<D> {
        self.within(name, || {
            let x = work();
            if let Some(probe) = &self.probe {
                probe.read_stream(&x);
            }
            x
        })
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
