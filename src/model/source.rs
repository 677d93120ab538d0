//! What an encoder-decoder keeps while it writes: the source that it read, and keys and values. Rows of both can be
//! reordered, as beam search does with its hypotheses.

use crate::stack::block::BlockCache;
use burn::tensor::{Int, Tensor};

/// A source that was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The encoder's output `[batch, source, d_model]`.
    pub states: Tensor<3>,
    /// Tokens of each source, when some are filled up.
    pub lengths: Option<Vec<usize>>,
}

impl Source {
    /// The same sources in other rows: row i becomes `rows[i]`.
    pub fn select(&self, rows: &[usize]) -> Self {
        let numbers: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
        let device = self.states.device();
        let numbers = Tensor::<1, Int>::from_ints(numbers.as_slice(), &device);
        Self {
            states: self.states.clone().select(0, numbers),
            lengths: self
                .lengths
                .as_ref()
                .map(|lengths| rows.iter().map(|row| lengths[*row]).collect()),
        }
    }
}

/// Keys and values of the tokens already written and of the source, one entry for each layer.
#[derive(Clone, Debug)]
pub struct EncoderDecoderCache {
    pub(super) layers: Vec<BlockCache>,
}

impl EncoderDecoderCache {
    /// Tokens written.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.own.len())
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same cache for other rows: row i becomes that of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        for layer in &mut self.layers {
            layer.select(rows);
        }
    }
}
