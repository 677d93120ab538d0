//! How alike heads are: the disagreement of heads on outputs (Li et al. 2018, equation 9) with its sign turned, so that a
//! coefficient above 0 drives heads apart.
//!
//! At a position it is the mean of the cosines of all pairs of heads' outputs, each with itself included:
//! (1/H²)·Σ_i Σ_j cos(o_i, o_j) = |(1/H)·Σ_i o_i/|o_i||². The loss is its mean over positions that are not padding: 1
//! where all heads agree, 1/H where they are orthogonal.

use crate::kernel;
use crate::nn::pass::Pass;
use burn::tensor::{Bool, Tensor, TensorData};

/// Under a root: a head whose output is zero has a gradient of zero.
const TINY: f64 = 1e-12;

/// Adds the loss of heads `[batch, heads, positions, d_head]` to a pass.
pub(super) fn add(heads: &Tensor<4>, lengths: Option<&[usize]>, coefficient: f64, pass: &Pass) {
    if let Some(mean) = similarity(heads.clone(), lengths) {
        pass.add_loss("head_similarity", mean, coefficient);
    }
}

/// The mean cosine of heads `[batch, heads, positions, d_head]`, of the first `lengths` positions of each row when they
/// are given; `None` without a position.
pub fn similarity(heads: Tensor<4>, lengths: Option<&[usize]>) -> Option<Tensor<1>> {
    let [batch, _, seq, _] = heads.dims();
    let length = |row: usize| lengths.map_or(seq, |lengths| lengths[row].min(seq));
    let count: usize = (0..batch).map(length).sum();
    if count == 0 {
        return None;
    }
    // One view of all that follows: the heads get its gradient in one piece, and no order of sums depends on the graph around.
    let heads = kernel::full(heads.swap_dims(1, 2));
    let sizes = (heads.clone().square().sum_dim(3) + TINY).sqrt();
    let mean = (heads / sizes).mean_dim(2);
    let cosines = mean.square().sum_dim(3).reshape([batch, seq]);
    let cosines = match count == batch * seq {
        true => cosines,
        false => {
            let padding: Vec<bool> = (0..batch)
                .flat_map(|row| (0..seq).map(move |at| at >= length(row)))
                .collect();
            let padding = TensorData::new(padding, [batch, seq]);
            let padding = Tensor::<2, Bool>::from_data(padding, &cosines.device());
            cosines.mask_fill(padding, 0.0)
        }
    };
    Some(cosines.sum() / count as f64)
}
