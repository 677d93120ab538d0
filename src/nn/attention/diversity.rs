//! Similarity of heads: the disagreement of heads on outputs (Li et al. 2018, equation 9) with its sign reversed, so that a
//! coefficient above 0 drives heads apart.
//!
//! At a position it is the mean cosine over all pairs of heads' outputs, pairs of a head with itself included: (1/H²)·Σ_i Σ_j
//! cos(o_i, o_j) = |(1/H)·Σ_i o_i/|o_i||². The loss is its mean over positions that are not padding: 1 if all heads agree, 1/H if
//! they are orthogonal.

use crate::kernel;
use crate::nn::pass::Pass;
use burn::tensor::{Bool, Tensor, TensorData};

/// Added under the square root, so that a head whose output is zero has a gradient of zero.
const TINY: f64 = 1e-12;

/// Adds the loss of head outputs `[batch, heads, positions, d_head]` to a pass.
pub(super) fn add_loss(
    heads: &Tensor<4>,
    lengths: Option<&[usize]>,
    coefficient: f64,
    pass: &Pass,
) {
    if let Some(mean) = similarity(heads.clone(), lengths) {
        pass.add_loss("head_similarity", mean, coefficient);
    }
}

/// Returns the mean cosine of head outputs `[batch, heads, positions, d_head]`, over the first `lengths` positions of each row if
/// given; `None` if there is no position.
pub fn similarity(heads: Tensor<4>, lengths: Option<&[usize]>) -> Option<Tensor<1>> {
    let [batch, _, seq, _] = heads.dims();
    let length = |row: usize| lengths.map_or(seq, |lengths| lengths[row].min(seq));
    let count: usize = (0..batch).map(length).sum();
    if count == 0 {
        return None;
    }
    // All that follows uses one view, so the heads get their gradient in one piece and the order of sums does not depend on the
    // surrounding graph.
    let heads = kernel::to_f32(heads.swap_dims(1, 2));
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
