//! The positional bias on attention scores, and its gradient.
//!
//! For each row of scores, a bias by distance is read as one contiguous range of its head's numbers. Its gradient is
//! summed within a tile, then over the tiles of a batch row and head, then over the batch rows: in a fixed order for
//! any number of threads.

use burn_flex::{Flex, FlexTensor};

use super::attention::Place;
use super::buffer::{SharedBuffer, contiguous, dims, slice, tensor};
use super::linear::Sum;
use super::simd::map_in_place;
use crate::kernel::extension::Maybe;

/// A bias added to the scores.
pub enum Bias {
    /// No bias.
    None,
    /// A number per head and distance, `[H, Q + K − 1]`.
    ByDistance(FlexTensor),
    /// A number per score, `[1 or B, H, Q, K]`.
    Dense(FlexTensor),
}

impl Bias {
    /// Wraps a bias; one of two dimensions is by distance.
    pub fn new(bias: Maybe<Flex>) -> Self {
        match bias.into_option().map(contiguous) {
            None => Self::None,
            Some(bias) if bias.layout().shape().len() == 2 => Self::ByDistance(bias),
            Some(bias) => Self::Dense(bias),
        }
    }

    /// Adds the bias to the scores of a query (batch row, head, query) and keys from `from` on; `sizes` are the
    /// numbers of queries and keys.
    pub fn add(
        &self,
        [batch, head, query]: [usize; 3],
        [n_q, n_k]: [usize; 2],
        from: usize,
        scores: &mut [f32],
    ) {
        let (bias, at) = match self {
            Self::None => return,
            Self::ByDistance(bias) => (bias, head * (n_q + n_k - 1) + n_q - 1 - query + from),
            Self::Dense(bias) => {
                let [rows, heads, _, _] = dims(bias);
                let row = if rows == 1 { 0 } else { batch };
                (bias, ((row * heads + head) * n_q + query) * n_k + from)
            }
        };
        let numbers = &slice(bias)[at..at + scores.len()];
        map_in_place(Sum, scores, [numbers]);
    }

    /// Returns whether several batch rows share the numbers of a head, so that one piece of work must handle all of
    /// them.
    pub fn is_shared(&self, batch: usize) -> bool {
        match self {
            Self::None | Self::ByDistance(_) => false,
            Self::Dense(bias) => batch > 1 && dims::<4>(bias)[0] == 1,
        }
    }

    /// Returns zeros for the gradient's sums: one per number of the bias, or per batch row and number for a bias by
    /// distance.
    pub fn sums(&self, batch: usize) -> Vec<f32> {
        match self {
            Self::None => Vec::new(),
            Self::ByDistance(bias) => vec![0.0; batch * slice(bias).len()],
            Self::Dense(bias) => vec![0.0; slice(bias).len()],
        }
    }

    /// Adds the gradient of the scores of a place to the sums. `[n_q, n_k]` are the numbers of queries and keys;
    /// `diagonals` is scratch memory for the sums of a tile.
    pub fn add_gradient(
        &self,
        sums: &SharedBuffer,
        place: Place,
        [n_q, n_k]: [usize; 2],
        d_scores: &[f32],
        diagonals: &mut Vec<f32>,
    ) {
        let Place {
            batch,
            head,
            queries: [first, len],
            keys: [from, n],
        } = place;
        let rows = d_scores.chunks_exact(n).enumerate();
        match self {
            Self::None => {}
            Self::ByDistance(bias) => {
                diagonals.clear();
                diagonals.resize(len + n - 1, 0.0);
                for (i, row) in rows {
                    map_in_place(Sum, &mut diagonals[len - 1 - i..][..n], [row]);
                }
                let [heads, distances] = dims(bias);
                let at = (batch * heads + head) * distances + from + n_q - first - len;
                // SAFETY: only this piece of work writes the sums of this batch row and head.
                let sums = unsafe { sums.row(at, diagonals.len()) };
                map_in_place(Sum, sums, [&diagonals[..]]);
            }
            Self::Dense(bias) => {
                let [shared, heads, _, _] = dims(bias);
                let batch = if shared == 1 { 0 } else { batch };
                for (i, row) in rows {
                    let at = ((batch * heads + head) * n_q + first + i) * n_k + from;
                    // SAFETY: this row of the bias belongs to the batch row and head, or to the head if the batch
                    // shares it. Either way only this piece of work writes it.
                    map_in_place(Sum, unsafe { sums.row(at, n) }, [row]);
                }
            }
        }
    }

    /// Returns the gradient, given the sums.
    pub fn gradient(&self, mut sums: Vec<f32>) -> Option<FlexTensor> {
        match self {
            Self::None => None,
            Self::ByDistance(bias) => {
                let (total, rest) = sums.split_at_mut(slice(bias).len());
                for row in rest.chunks_exact(total.len().max(1)) {
                    map_in_place(Sum, total, [row]);
                }
                sums.truncate(slice(bias).len());
                Some(tensor(sums, dims::<2>(bias)))
            }
            Self::Dense(bias) => Some(tensor(sums, dims::<4>(bias))),
        }
    }
}
