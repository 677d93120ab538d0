//! Losses of vectors of texts.
//!
//! ```text
//! in_batch   Σᵢ −log( exp(cos(uᵢ, vᵢ)/τ) / Σⱼ exp(cos(uᵢ, vⱼ)/τ) )      j over the rows of i's group
//! ```
//!
//! A step that ends one epoch and begins the next may hold an example twice. The one is no wrong answer to the other, and left out of its sum.

use crate::kernel;
use crate::task::host;
use burn::tensor::{Bool, DType, Device, FloatDType, Tensor, TensorData};
use std::ops::Range;

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

/// What the rows of a batch are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// Rows of a group.
    pub size: usize,
    /// Which example each row is; none where all differ.
    pub samples: &'a [u64],
}

/// The score of a pair that is left out: it adds nothing to a softmax, and as a wrong pair no loss.
const LEFT_OUT: f64 = -1e9;

impl Groups<'_> {
    /// Groups of so many rows that all differ.
    pub fn of(size: usize) -> Self {
        Self { size, samples: &[] }
    }

    /// The pairs of rows of a group that are one example and are no partners; `None` where all differ.
    fn twice(&self, part: &Range<usize>, device: &Device) -> Option<Tensor<2, Bool>> {
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
pub struct InBatch {
    /// Its sum, `[1]`.
    pub loss: Tensor<1>,
    /// Rows whose own partner is the nearest, `[1]`.
    pub hits: Tensor<1>,
}

/// The loss of directions `[rows, d]` that look for their partners, a group at a time.
pub fn in_batch(
    first: &Tensor<2>,
    second: &Tensor<2>,
    temperature: f64,
    groups: Groups,
) -> InBatch {
    in_batch_scaled(first, second, |cosines| cosines / temperature, groups)
}

/// [`in_batch`] with `scaled` making scores of cosines.
pub fn in_batch_scaled(
    first: &Tensor<2>,
    second: &Tensor<2>,
    scaled: impl Fn(Tensor<2>) -> Tensor<2>,
    groups: Groups,
) -> InBatch {
    in_groups(first, second, scaled, groups, |scores, partners| {
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
    groups: Groups,
    of_scores: impl Fn(Tensor<2>, &[i32]) -> Tensor<1>,
) -> InBatch {
    let [rows, _] = first.dims();
    // The last row of a split does not stand alone.
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
        let scores = match groups.twice(&part, &scores.device()) {
            Some(twice) => scores.mask_fill(twice, LEFT_OUT),
            None => scores,
        };
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
