//! The source that an encoder-decoder read. Its rows can be reordered, as beam search does with its hypotheses.

use crate::nn::attention::Visibility;
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
    /// Each of its tokens by all that look at it, without what fills it up.
    pub(super) fn visible(&self) -> Visibility {
        visible(self.lengths.as_deref())
    }

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

/// Every token of a row sees those of this many that the row has.
pub(super) fn visible(lengths: Option<&[usize]>) -> Visibility {
    lengths.map(Visibility::of_lengths).unwrap_or_default()
}
