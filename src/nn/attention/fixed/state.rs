//! The decoding state of the fixed pattern: the summaries of complete blocks, and the unfinished block.

use crate::nn::attention::LayerCache;
use crate::nn::attention::cache::append_to;
use crate::nn::state::DecodingState;
use burn::tensor::{Int, Tensor};

/// The decoding state: after T positions, c·⌊T/l⌋ keys of summaries and fewer than l keys of the newest block.
#[derive(Clone, Debug, Default)]
pub struct Summaries {
    /// Keys and values of the summaries of complete blocks, if some head sees them.
    pub(super) summary_cache: LayerCache,
    /// Keys and values of the positions after the last complete block.
    pub(super) newest: Option<[Tensor<4>; 2]>,
}

impl Summaries {
    /// Appends new keys and values to those of the newest block and returns the result.
    pub(super) fn append_to_newest(&self, kv: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
        append_to(self.newest.clone(), kv)
    }

    /// Returns the number of keys stored.
    pub fn keys(&self) -> usize {
        let newest = self.newest.as_ref();
        self.summary_cache.len() + newest.map_or(0, |[keys, _]| keys.dims()[2])
    }
}

impl DecodingState for Summaries {
    fn select(&mut self, rows: &Tensor<1, Int>) {
        self.summary_cache.select(rows);
        for x in self.newest.iter_mut().flatten() {
            *x = x.clone().select(0, rows.clone());
        }
    }

    /// Room for summaries is allocated as they come: there are few.
    fn reserve(&mut self, _: usize) {}

    fn clone_box(&self) -> Box<dyn DecodingState> {
        Box::new(self.clone())
    }
}
