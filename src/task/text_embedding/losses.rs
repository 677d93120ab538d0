//! Losses of text embeddings.
//!
//! ```text
//! in_batch   Σᵢ −log( exp(cos(uᵢ, vᵢ)/τ) / Σⱼ exp(cos(uᵢ, vⱼ)/τ) )      j over the rows of i's group
//! ```
//!
//! A step that ends one epoch and begins the next may contain an example twice. These two rows are not wrong answers to
//! each other, and are left out of each other's sums.

use crate::kernel;
use crate::task::host;
use burn::tensor::{Bool, DType, Device, FloatDType, Tensor, TensorData};
use std::ops::Range;

/// Normalises vectors `[rows, d]` to length 1, in at least 32 bits.
pub fn normalize_rows(vectors: Tensor<2>) -> Tensor<2> {
    kernel::l2_normalise(match vectors.dtype() {
        DType::F16 | DType::BF16 => vectors.cast(FloatDType::F32),
        _ => vectors,
    })
}

/// Which rows of a batch are compared with each other.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// Number of rows in a group.
    pub size: usize,
    /// Number of each row's example; empty if all differ.
    pub samples: &'a [u64],
}

/// Score of a pair that is left out: it adds nothing to a softmax, and no loss as a wrong pair.
const EXCLUDED_SCORE: f64 = -1e9;

impl Groups<'_> {
    /// Returns groups of `size` rows whose examples all differ.
    pub fn of(size: usize) -> Self {
        Self { size, samples: &[] }
    }

    /// Returns the mask of the pairs of rows in a group that are the same example but not partners; `None` if all
    /// differ.
    fn duplicate_mask(&self, part: &Range<usize>, device: &Device) -> Option<Tensor<2, Bool>> {
        let samples = self.samples.get(part.clone())?;
        let rows = samples.iter().enumerate();
        let pairs: Vec<bool> = rows
            .flat_map(|(i, one)| {
                let others = samples.iter().enumerate();
                others.map(move |(j, other)| i != j && one == other)
            })
            .collect();
        let shape = [samples.len(); 2];
        pairs
            .contains(&true)
            .then(|| Tensor::from_data(TensorData::new(pairs, shape), device))
    }
}

/// A loss over the rows of a batch.
pub struct InBatchLoss {
    /// Sum of the losses, `[1]`.
    pub loss: Tensor<1>,
    /// Number of rows whose own partner is the nearest, `[1]`.
    pub hits: Tensor<1>,
}

/// Computes the softmax loss of normalised embeddings `[rows, d]` against their partners, a group at a time.
pub fn in_batch(
    first: &Tensor<2>,
    second: &Tensor<2>,
    temperature: f64,
    groups: Groups,
) -> InBatchLoss {
    in_batch_scaled(first, second, |cosines| cosines / temperature, groups)
}

/// Like [`in_batch`], with a function `scaled` that converts cosines to scores.
pub fn in_batch_scaled(
    first: &Tensor<2>,
    second: &Tensor<2>,
    scaled: impl Fn(Tensor<2>) -> Tensor<2>,
    groups: Groups,
) -> InBatchLoss {
    grouped_loss(first, second, scaled, groups, |scores, partners| {
        let partners = host::vector(partners, &scores.device());
        kernel::cross_entropy_sum(scores, partners, 0.0)
    })
}

/// Computes a loss over groups of rows. `of_scores` gets the scores `[rows, rows]` of a group's first embeddings
/// against its second ones and the column of each row's partner, and returns the summed loss `[1]`.
pub fn grouped_loss(
    first: &Tensor<2>,
    second: &Tensor<2>,
    scaled: impl Fn(Tensor<2>) -> Tensor<2>,
    groups: Groups,
    of_scores: impl Fn(Tensor<2>, &[i32]) -> Tensor<1>,
) -> InBatchLoss {
    let [rows, _] = first.dims();
    // A single last row joins the group before it.
    let end = |from: usize| match from + groups.size.max(1) {
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
        let scores = match groups.duplicate_mask(&part, &scores.device()) {
            Some(twice) => scores.mask_fill(twice, EXCLUDED_SCORE),
            None => scores,
        };
        let partners: Vec<i32> = (0..part.len() as i32).collect();
        let hits = host::count_hits(&scores, &partners).sum;
        (of_scores(scores, &partners), hits)
    };
    let (mut loss, mut hits) = of_group(0);
    let mut from = end(0);
    while from < rows {
        let (more, further) = of_group(from);
        (loss, hits) = (loss + more, hits + further);
        from = end(from);
    }
    InBatchLoss { loss, hits }
}
