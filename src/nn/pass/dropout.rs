//! The dropouts of a pass: each has its own key, which determines its mask.

use super::Pass;
use crate::kernel::{self, DropKey};
use crate::rng::part_coordinate;
use burn::tensor::Tensor;

impl Pass {
    /// Returns the key of the dropout `name` of the current part; `None` if nothing is to be dropped.
    pub fn key(&self, name: &str, p: f64) -> Option<DropKey> {
        let draws = self.draws.filter(|_| p > 0.0)?;
        Some(DropKey {
            p,
            seed: draws.seed,
            step: draws.step,
            first_row: draws.first_row * self.derived_rows.get(),
            site: part_coordinate(self.part.get(), name),
        })
    }

    /// Applies the dropout `name` with probability `p` to `x` `[batch, seq, d]`.
    pub fn dropout(&self, x: Tensor<3>, name: &str, p: f64) -> Tensor<3> {
        match self.key(name, p) {
            Some(key) => kernel::dropout(x, key),
            None => x,
        }
    }

    /// Adds `y` to the stream `x` after the dropout `name` with probability `p` on `y`; both are `[batch, seq, d]`.
    pub fn add_dropped(&self, x: Tensor<3>, y: Tensor<3>, name: &str, p: f64) -> Tensor<3> {
        match self.key(name, p) {
            Some(key) => kernel::add_dropped(x, y, key),
            None => kernel::add(x, y),
        }
    }

    /// Applies the dropout `name` with probability `p` to vectors `[rows, d]` that all rows of a step's batch share: all
    /// micro-batches have one mask.
    pub fn dropout_shared(&self, x: Tensor<2>, name: &str, p: f64) -> Tensor<2> {
        match self.key(name, p) {
            Some(key) => {
                let key = DropKey {
                    first_row: 0,
                    ..key
                };
                kernel::dropout(x.unsqueeze_dim(0), key).squeeze_dim(0)
            }
            None => x,
        }
    }

    /// Drops whole rows of `x` `[batch, seq, d]` with probability `p` (stochastic depth, Huang et al. 2016).
    pub fn drop_path(&self, x: Tensor<3>, name: &str, p: f64) -> Tensor<3> {
        match self.key(name, p) {
            Some(key) => kernel::drop_path(x, key),
            None => x,
        }
    }
}
