//! The share of positions in attention's scores, and its gradient.
//!
//! A bias by distance is read as one stretch of its head's numbers for each row of scores. Its gradient is summed within
//! a tile, then over the tiles of a batch row and head, then over the batch rows: in one order for any number of threads.

use burn_flex::{Flex, FlexTensor};

use super::attention::Place;
use super::buffer::{Shared, contiguous, dims, slice, tensor};
use super::linear::Sum;
use super::simd::map_in_place;
use crate::kernel::extension::Maybe;

/// Added to the scores.
pub enum Bias {
    /// Nothing.
    None,
    /// By distance, `[H, Q + K − 1]`.
    ByDistance(FlexTensor),
    /// To each score, `[1 or B, H, Q, K]`.
    Dense(FlexTensor),
}

impl Bias {
    /// By distance when it has two dimensions.
    pub fn new(bias: Maybe<Flex>) -> Self {
        match bias.into_option().map(contiguous) {
            None => Self::None,
            Some(bias) if bias.layout().shape().len() == 2 => Self::ByDistance(bias),
            Some(bias) => Self::Dense(bias),
        }
    }

    /// Adds it to the scores of a query (batch row, head, query) and keys from `from` on; `sizes` are the numbers of
    /// queries and keys.
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

    /// Whether several batch rows read the same numbers of a head, so that one piece of work must have them all.
    pub fn is_shared(&self, batch: usize) -> bool {
        match self {
            Self::None | Self::ByDistance(_) => false,
            Self::Dense(bias) => batch > 1 && dims::<4>(bias)[0] == 1,
        }
    }

    /// Zeros for the sums of its gradient: one for each number, by distance for each batch row.
    pub fn sums(&self, batch: usize) -> Vec<f32> {
        match self {
            Self::None => Vec::new(),
            Self::ByDistance(bias) => vec![0.0; batch * slice(bias).len()],
            Self::Dense(bias) => vec![0.0; slice(bias).len()],
        }
    }

    /// Adds the gradient of the scores of a place to the sums; `sizes` are the numbers of queries and keys, `diagonals`
    /// is room for the sums of a tile.
    pub fn add_gradient(
        &self,
        sums: &Shared,
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
                // SAFETY: the sums of this batch row and head belong to this piece of work alone.
                let sums = unsafe { sums.row(at, diagonals.len()) };
                map_in_place(Sum, sums, [&diagonals[..]]);
            }
            Self::Dense(bias) => {
                let [shared, heads, _, _] = dims(bias);
                let batch = if shared == 1 { 0 } else { batch };
                for (i, row) in rows {
                    let at = ((batch * heads + head) * n_q + first + i) * n_k + from;
                    // SAFETY: this row of the bias belongs to the batch row and head, or to the head when the batch
                    // shares it; either way to this piece of work alone.
                    map_in_place(Sum, unsafe { sums.row(at, n) }, [row]);
                }
            }
        }
    }

    /// The gradient from the sums.
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
