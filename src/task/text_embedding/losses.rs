//! Losses of vectors of texts.
//!
//! ```text
//! in_batch   Σᵢ −log( exp(cos(uᵢ, vᵢ)/τ) / Σⱼ exp(cos(uᵢ, vⱼ)/τ) )      j over the rows of i's group
//! ```

use crate::kernel;
use crate::task::host;
use burn::tensor::{DType, FloatDType, Tensor};

/// The least square of a length that a vector is divided by: a vector of zeros has no direction.
const LEAST: f64 = 1e-24;

/// Vectors `[rows, d]` with length 1, in 32 bits at least.
pub fn normalized(vectors: Tensor<2>) -> Tensor<2> {
    let vectors = match vectors.dtype() {
        DType::F16 | DType::BF16 => vectors.cast(FloatDType::F32),
        _ => vectors,
    };
    let squares = (vectors.clone() * vectors.clone()).sum_dim(1);
    vectors / squares.clamp_min(LEAST).sqrt()
}

/// A loss over the rows of a batch.
pub struct InBatch {
    /// Its sum, `[1]`.
    pub loss: Tensor<1>,
    /// Rows whose own partner is the nearest, `[1]`.
    pub hits: Tensor<1>,
}

/// The loss of directions `[rows, d]` that look for their partners, `group` rows at a time.
pub fn in_batch(first: &Tensor<2>, second: &Tensor<2>, temperature: f64, group: usize) -> InBatch {
    in_batch_scaled(first, second, |cosines| cosines / temperature, group)
}

/// [`in_batch`] with `scaled` making scores of cosines.
pub fn in_batch_scaled(
    first: &Tensor<2>,
    second: &Tensor<2>,
    scaled: impl Fn(Tensor<2>) -> Tensor<2>,
    group: usize,
) -> InBatch {
    in_groups(first, second, scaled, group, |scores, partners| {
        let partners = host::vector(partners, &scores.device());
        kernel::cross_entropy_sum(scores, partners, 0.0)
    })
}

/// A loss of each group of rows: `of_scores` makes its sum `[1]` of the scores `[rows, rows]` of the first directions with the second
/// ones, and of the column of each row's partner.
pub fn in_groups(
    first: &Tensor<2>,
    second: &Tensor<2>,
    scaled: impl Fn(Tensor<2>) -> Tensor<2>,
    group: usize,
    of_scores: impl Fn(Tensor<2>, &[i32]) -> Tensor<1>,
) -> InBatch {
    let [rows, _] = first.dims();
    // The last row of a split does not stand alone.
    let end = |from: usize| match from + group {
        end if end + 1 >= rows => rows,
        end => end,
    };
    let of_group = |from: usize| {
        let part = from..end(from);
        let (own, others) = (
            first.clone().slice(part.clone()),
            second.clone().slice(part.clone()),
        );
        let scores = scaled(own.matmul(others.transpose()));
        let partners: Vec<i32> = (0..part.len() as i32).collect();
        let hits = host::hits(&scores, &partners).sum;
        (of_scores(scores, &partners), hits)
    };
    let (mut loss, mut hits) = of_group(0);
    let mut from = end(0);
    while from < rows {
        let (more, further) = of_group(from);
        (loss, hits) = (loss + more, hits + further);
        from = end(from);
    }
    InBatch { loss, hits }
}
