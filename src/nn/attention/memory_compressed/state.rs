//! The state of memory-compressed attention in decoding.

use crate::nn::attention::LayerCache;
use crate::nn::state::DecodingState;
use burn::tensor::{Int, Tensor};

/// The decoding state: compressed keys and values, and those of positions that do not form a complete block yet.
#[derive(Clone, Debug)]
pub struct CompressedState {
    pub(super) whole: LayerCache,
    pub(super) unfinished: Option<[Tensor<4>; 2]>,
    factor: usize,
}

impl CompressedState {
    /// Creates an empty state; a compressed key stands for `factor` positions.
    pub fn new(factor: usize) -> Self {
        Self {
            whole: LayerCache::default(),
            unfinished: None,
            factor,
        }
    }

    /// Returns the number of compressed keys.
    pub fn keys(&self) -> usize {
        self.whole.len()
    }
}

impl DecodingState for CompressedState {
    fn select(&mut self, rows: &Tensor<1, Int>) {
        self.whole.select(rows);
        if let Some(unfinished) = &mut self.unfinished {
            for x in unfinished {
                *x = x.clone().select(0, rows.clone());
            }
        }
    }

    fn reserve(&mut self, positions: usize) {
        // One more for a null key.
        self.whole.reserve(positions / self.factor.max(1) + 1);
    }

    fn clone_box(&self) -> Box<dyn DecodingState> {
        Box::new(self.clone())
    }
}
