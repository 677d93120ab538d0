//! The decoding state of the fixed pattern: the summaries of complete blocks, and the unfinished block.

use crate::nn::attention::LayerCache;
use crate::nn::attention::cache::behind;
use crate::nn::state::Kept;
use burn::tensor::{Int, Tensor};

/// The decoding state: after T positions, c·⌊T/l⌋ keys of summaries and fewer than l keys of the newest block.
#[derive(Clone, Debug, Default)]
pub struct Summaries {
    /// Keys and values of the summaries of complete blocks, if some head sees them.
    pub(super) whole: LayerCache,
    /// Keys and values of the positions after the last complete block.
    pub(super) newest: Option<[Tensor<4>; 2]>,
}

impl Summaries {
    /// Appends new keys and values to those of the newest block and returns the result.
    pub(super) fn behind_newest(&self, kv: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
        behind(self.newest.clone(), kv)
    }

    /// Returns the number of keys stored.
    pub fn keys(&self) -> usize {
        let newest = self.newest.as_ref();
        self.whole.len() + newest.map_or(0, |[keys, _]| keys.dims()[2])
    }
}

impl Kept for Summaries {
    fn select(&mut self, rows: &Tensor<1, Int>) {
        self.whole.select(rows);
        for x in self.newest.iter_mut().flatten() {
            *x = x.clone().select(0, rows.clone());
        }
    }

    /// Room for summaries is allocated as they come: there are few.
    fn reserve(&mut self, _: usize) {}

    fn cloned(&self) -> Box<dyn Kept> {
        Box::new(self.clone())
    }
}
