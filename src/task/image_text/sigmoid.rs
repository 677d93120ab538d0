//! The sigmoid loss: each pair of an image and a text of a batch is classified by itself, as belonging together or not
//! (Zhai et al. 2023, SigLIP, section 3.2 and algorithm 1).
//!
//! ```text
//! loss = Σᵢ Σⱼ −ln σ(zᵢⱼ·sᵢⱼ)      sᵢⱼ = exp(t)·cos(uᵢ, vⱼ) + b      zᵢⱼ = 1 where i = j, else −1
//! ```
//!
//! The sum is divided by the number of rows of a step, like that of the softmax loss. t and b are learned
//! (`model::two_towers::sigmoid`).

use crate::kernel::composed::softplus;
use crate::task::text_embedding::losses::{Groups, InBatchLoss, grouped_loss};
use burn::tensor::{DType, FloatDType, Int, Tensor, TensorData};

/// Computes the loss of normalised embeddings `[rows, d_joint]` of images and texts, a group at a time; `scaled`
/// converts cosines to scores. Hits are images whose own text has the highest score.
pub fn pairwise(
    images: &Tensor<2>,
    texts: &Tensor<2>,
    scaled: impl Fn(Tensor<2>) -> Tensor<2>,
    groups: Groups,
) -> InBatchLoss {
    grouped_loss(images, texts, scaled, groups, pair_loss)
}

/// Sums the loss over all pairs of scores `[rows, rows]`, `[1]`, in at least 32 bits; row i belongs to column
/// `partners[i]`. −ln σ(−s) is softplus(s), and −ln σ(s) is softplus(s) − s.
fn pair_loss(scores: Tensor<2>, partners: &[i32]) -> Tensor<1> {
    let scores = match scores.dtype() {
        DType::F16 | DType::BF16 => scores.cast(FloatDType::F32),
        _ => scores,
    };
    let partners = TensorData::new(partners.to_vec(), [partners.len(), 1]);
    let partners = Tensor::<2, Int>::from_data(partners, &scores.device());
    let own = scores.clone().gather(1, partners);
    softplus(scores).sum() - own.sum()
}

#[cfg(test)]
mod tests {
    use super::pair_loss;
    use burn::tensor::{Device, Tensor};

    #[test]
    fn pairs_that_belong_together_are_told_by_their_columns() {
        let scores: Tensor<2> = Tensor::from_data([[2.0, -1.0], [0.5, 3.0]], &Device::flex());
        let found = pair_loss(scores, &[0, 1]).into_data();
        let found = found.iter::<f32>().next().unwrap();
        let loss = |z: f32, s: f32| (1.0 + (-z * s).exp()).ln();
        let wanted = loss(1.0, 2.0) + loss(-1.0, -1.0) + loss(-1.0, 0.5) + loss(1.0, 3.0);
        assert!((found - wanted).abs() < 1e-5, "{found} for {wanted}");
    }
}
