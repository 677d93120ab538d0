//! What a network keeps from one call to the next: one entry for each block.
//!
//! Caches of decoding, memories of earlier segments and recurrent states are one value that the caller owns and hands
//! to the network's only forward.

use super::retrieved::KeptChunks;
use crate::nn::state::LayerState;
use burn::tensor::{Int, Tensor};
use std::ops::Range;

/// The state of one block.
#[derive(Clone, Debug, Default)]
pub struct BlockState {
    /// Of the layer that mixes the block's own positions.
    pub own: LayerState,
    /// Of cross-attention: keys and values of the memory.
    pub cross: LayerState,
    /// Of a feed-forward layer that looks back.
    pub feed_forward: LayerState,
}

impl BlockState {
    /// The states of its layers.
    fn all(&self) -> [&LayerState; 3] {
        [&self.own, &self.cross, &self.feed_forward]
    }

    fn each(&mut self) -> [&mut LayerState; 3] {
        [&mut self.own, &mut self.cross, &mut self.feed_forward]
    }
}

/// The state of a network.
#[derive(Clone, Debug, Default)]
pub struct ModelState {
    /// Positions of each row that were read.
    pub seen: usize,
    /// One entry for each block, in their order.
    pub layers: Vec<BlockState>,
    /// What a retrieval-enhanced decoder keeps of the chunks of its text in decoding.
    pub chunks: KeptChunks,
}

impl ModelState {
    /// Nothing read yet.
    pub fn new(layers: Vec<BlockState>) -> Self {
        Self {
            seen: 0,
            layers,
            chunks: KeptChunks::default(),
        }
    }

    /// Whether some layer keeps something.
    pub fn is_kept(&self) -> bool {
        let kept = |state: &LayerState| !matches!(state, LayerState::None);
        self.layers
            .iter()
            .any(|block| block.all().into_iter().any(kept))
    }

    /// Whether every value of it is a finite number; caches of decoding are not looked at.
    pub fn is_finite(&self) -> bool {
        let layers = self.layers.iter();
        layers.flat_map(BlockState::all).all(LayerState::is_finite)
    }

    /// Makes room for so many positions in all when caches next grow.
    pub fn reserve(&mut self, positions: usize) {
        for block in &mut self.layers {
            if let LayerState::Kept(kept) = &mut block.own {
                kept.reserve(positions);
            }
        }
    }

    /// The state of other rows: row i becomes that of `rows[i]`, as beam search reorders its hypotheses.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        self.each(|state| state.select(rows));
        self.chunks.select(rows);
    }

    /// Cuts the state off from the gradients of the steps that made it.
    pub fn detach(&mut self) {
        self.each(LayerState::detach);
    }

    /// Empties the rows where `kept` is false.
    pub fn reset(&mut self, kept: &[bool]) {
        self.each(|state| state.reset(kept));
    }

    /// The state of some consecutive rows.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let mut part = self.clone();
        part.each(|state| *state = state.rows(rows.clone()));
        part
    }

    /// The state of all rows of these, one after the other; `None` of none. All are of one network.
    pub fn joined(parts: Vec<Self>) -> Option<Self> {
        let mut joined = parts.first()?.clone();
        for (number, block) in joined.layers.iter_mut().enumerate() {
            let all = |of: fn(&BlockState) -> &LayerState| {
                LayerState::joined(parts.iter().map(|part| of(&part.layers[number])))
            };
            *block = BlockState {
                own: all(|block| &block.own),
                cross: all(|block| &block.cross),
                feed_forward: all(|block| &block.feed_forward),
            };
        }
        Some(joined)
    }

    fn each(&mut self, change: impl Fn(&mut LayerState)) {
        for block in &mut self.layers {
            block.each().into_iter().for_each(&change);
        }
    }
}
