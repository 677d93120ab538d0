//! The state of the fixed pattern in decoding: the summaries of whole blocks, and the block that is not whole yet.

use crate::nn::attention::LayerCache;
use crate::nn::attention::cache::behind;
use crate::nn::state::Kept;
use burn::tensor::{Int, Tensor};

/// What decoding keeps: of T positions c·⌊T/l⌋ keys of summaries and fewer than l of the newest block.
#[derive(Clone, Debug, Default)]
pub struct Summaries {
    /// Keys and values of the summaries of whole blocks, where a head sees them.
    pub(super) whole: LayerCache,
    /// Those of the positions behind the last whole block.
    pub(super) newest: Option<[Tensor<4>; 2]>,
}

impl Summaries {
    /// New keys and values behind those of the newest block.
    pub(super) fn behind_newest(&self, kv: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
        behind(self.newest.clone(), kv)
    }

    /// Keys that it has.
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

    /// Room for summaries is taken as they come: there are few.
    fn reserve(&mut self, _: usize) {}

    fn cloned(&self) -> Box<dyn Kept> {
        Box::new(self.clone())
    }
}
