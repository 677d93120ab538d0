//! The encoded source of an encoder-decoder. Its rows can be reordered, as beam search does with its hypotheses.

use crate::nn::attention::Visibility;
use burn::tensor::{Int, Tensor};

/// An encoded source.
#[derive(Clone, Debug)]
pub struct Source {
    /// The encoder's output `[batch, source, d_model]`.
    pub states: Tensor<3>,
    /// Number of tokens of each source, if some are padded.
    pub lengths: Option<Vec<usize>>,
}

impl Source {
    /// Returns the mask of the source's tokens without padding.
    pub(super) fn visibility(&self) -> Visibility {
        visible(self.lengths.as_deref())
    }

    /// Selects rows: row i becomes `rows[i]`.
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

/// Returns the mask in which every query of a row sees the row's tokens, without padding.
pub(super) fn visible(lengths: Option<&[usize]>) -> Visibility {
    lengths.map(Visibility::from_lengths).unwrap_or_default()
}
