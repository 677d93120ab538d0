//! The state of a network between calls: one entry for each block.
//!
//! KV caches, memories of earlier segments and recurrent states form one value that the caller owns and passes
//! to the network's forward.

use super::retrieved::ChunkState;
use crate::nn::state::LayerState;
use burn::tensor::{Int, Tensor};
use std::ops::Range;

/// The state of one block.
#[derive(Clone, Debug, Default)]
pub struct BlockState {
    /// State of the layer that mixes the block's own positions.
    pub own: LayerState,
    /// State of cross-attention: keys and values of the memory.
    pub cross: LayerState,
    /// State of a feed-forward layer that reads the position before.
    pub feed_forward: LayerState,
}

impl BlockState {
    /// Returns the states of all its layers.
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
    /// Number of positions of each row that were read so far.
    pub seen: usize,
    /// The states of the blocks, in their order.
    pub layers: Vec<BlockState>,
    /// The chunks of its text that a retrieval-enhanced decoder keeps in decoding.
    pub chunks: ChunkState,
}

impl ModelState {
    /// Builds the state from which reading starts.
    pub fn new(layers: Vec<BlockState>) -> Self {
        Self {
            seen: 0,
            layers,
            chunks: ChunkState::default(),
        }
    }

    /// Whether some layer keeps a state.
    pub fn has_state(&self) -> bool {
        let kept = |state: &LayerState| !matches!(state, LayerState::None);
        self.layers
            .iter()
            .any(|block| block.all().into_iter().any(kept))
    }

    /// Whether all its values are finite; KV caches are not checked.
    pub fn is_finite(&self) -> bool {
        let layers = self.layers.iter();
        layers.flat_map(BlockState::all).all(LayerState::is_finite)
    }

    /// Reserves room for this many positions in total when caches next grow.
    pub fn reserve(&mut self, positions: usize) {
        for block in &mut self.layers {
            if let LayerState::Kept(kept) = &mut block.own {
                kept.reserve(positions);
            }
        }
    }

    /// Selects rows: row i becomes that of `rows[i]`, as when beam search reorders its hypotheses.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        self.each(|state| state.select(rows));
        self.chunks.select(rows);
    }

    /// Detaches the state from the graphs of the steps that computed it.
    pub fn detach(&mut self) {
        self.each(LayerState::detach);
    }

    /// Empties the rows where `kept` is false.
    pub fn reset(&mut self, kept: &[bool]) {
        self.each(|state| state.reset(kept));
    }

    /// Returns the state of a range of rows.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let mut part = self.clone();
        part.each(|state| *state = state.rows(rows.clone()));
        part
    }

    /// Concatenates the rows of several states of one network; `None` if there are none.
    pub fn concat(parts: Vec<Self>) -> Option<Self> {
        let mut joined = parts.first()?.clone();
        for (number, block) in joined.layers.iter_mut().enumerate() {
            let all = |of: fn(&BlockState) -> &LayerState| {
                LayerState::concat(parts.iter().map(|part| of(&part.layers[number])))
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
