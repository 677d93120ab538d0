//! Positions with the same remainder modulo a stride, stored as contiguous runs.

use crate::kernel::{Documents, ScoreBias, Visibility, replay};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Positions by their remainders: run r of a row has the positions r, r + l, r + 2·l … All runs have the same length; the last
/// position of a run may lie beyond the text.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    /// The stride l, which is also the number of runs of a row.
    pub stride: usize,
    /// Number of positions of a row.
    pub positions: usize,
    /// Number of positions of a run.
    pub length: usize,
}

impl Runs {
    /// Rearranges `[batch, heads, positions, d_head]` into runs, `[batch·l, heads, length, d_head]`.
    pub fn to_runs(self, x: Tensor<4>) -> Tensor<4> {
        let [batch, heads, _, d_head] = x.dims();
        let x = x.swap_dims(1, 2);
        let behind = self.length * self.stride - self.positions;
        let x = match behind {
            0 => x,
            _ => {
                let zeros = Tensor::zeros([batch, behind, heads, d_head], &x.device());
                Tensor::cat(vec![x, zeros], 1)
            }
        };
        let x = x.reshape([batch, self.length, self.stride, heads, d_head]);
        let x = x.swap_dims(1, 2);
        let x = x.reshape([batch * self.stride, self.length, heads, d_head]);
        x.swap_dims(1, 2)
    }

    /// Rearranges runs `[batch·l, heads, length, d_head]` back to `[batch, heads, positions, d_head]`.
    pub fn undo_runs(self, y: Tensor<4>) -> Tensor<4> {
        let [rows, heads, length, d_head] = y.dims();
        let batch = rows / self.stride;
        let y = y.swap_dims(1, 2);
        let y = y.reshape([batch, self.stride, length, heads, d_head]);
        let y = y.swap_dims(1, 2);
        let y = y.reshape([batch, length * self.stride, heads, d_head]);
        y.narrow(1, 0, self.positions).swap_dims(1, 2)
    }

    /// Translates the visibility rules of the text to runs; causality masks what lies beyond the text.
    pub fn visible(self, visible: Visibility) -> Visibility {
        let Self { stride, length, .. } = self;
        let in_runs = |tokens: &usize| {
            let tokens = *tokens;
            (0..stride).map(move |run| tokens.saturating_sub(run).div_ceil(stride))
        };
        let documents = visible.documents.map(|documents| {
            let rows = 0..documents.dims()[0];
            let runs = rows.flat_map(|row| (0..stride).map(move |run| (row, run)));
            let places = runs
                .flat_map(|(row, run)| (0..length).map(move |place| (row, place * stride + run)));
            let number = |(row, at): (usize, usize)| documents.row(row).get(at).copied();
            let numbers: Vec<i32> = places.map(|at| number(at).unwrap_or(i32::MIN)).collect();
            Documents::new(&numbers, length)
        });
        Visibility {
            causal: visible.causal,
            lengths: visible
                .lengths
                .map(|all| all.iter().flat_map(in_runs).collect()),
            documents,
            ..Visibility::default()
        }
    }

    /// Selects the biases of every l-th distance.
    pub fn bias(self, bias: ScoreBias) -> ScoreBias {
        let ScoreBias::ByDistance(bias) = bias else {
            return bias;
        };
        let first = self.positions - 1 - (self.length - 1) * self.stride;
        let places: Vec<usize> = (0..2 * self.length - 1)
            .map(|diagonal| first + diagonal * self.stride)
            .collect();
        let pick = indices(&places, &bias.device());
        ScoreBias::ByDistance(bias.select(1, pick))
    }
}

/// Puts indices into a tensor.
pub(super) fn indices(places: &[usize], device: &Device) -> Tensor<1, Int> {
    let places: Vec<i32> = places.iter().map(|at| *at as i32).collect();
    let number = places.len();
    replay::integers(TensorData::new(places, [number]), device)
}
