//! The random vectors of Performer's features: blocks of orthogonal rows (Choromanski et al. 2021, section 2.4 and appendix B),
//! one matrix for all heads of a layer.
//!
//! A block consists of as many normal vectors as they have elements, made orthogonal by Gram-Schmidt; the last block may be cut.
//! Such rows are distributed uniformly over directions. The Q factor of a QR decomposition, which other implementations use as it
//! is, is not: the signs that LAPACK gives it leave an error that does not fall with the number of features.
//!
//! A matrix is a function of (seed, layer, number of the draw), where the number is step / `redraw`. Nothing is stored in a
//! checkpoint: a resumed run draws the same matrices, and all micro-batches of a step share one. Evaluation and decoding use draw
//! 0, since any draw estimates the same function.

use crate::kernel::linear_attention::{FeatureMap, Features};
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::rng::{Purpose, Stream};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Lengths of the random vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowNorms {
    /// Lengths of normal vectors, so that the features' estimate is unbiased.
    Chi,
    /// √d_head each (regularised).
    Constant,
}

/// The number of a draw and its vectors.
type CachedDraw = (u64, Arc<[f32]>);

/// Features computed from drawn vectors.
#[derive(Clone, Debug)]
pub struct RandomFeatures {
    features: Features,
    /// Number of vectors, and elements of each.
    sizes: [usize; 2],
    norms: RowNorms,
    redraw: u64,
    /// Seed and part of the model.
    seed: [u64; 2],
    given: Option<Arc<[f32]>>,
    /// The newest draw and its number, cached.
    cached_draw: Arc<Mutex<Option<CachedDraw>>>,
}

impl RandomFeatures {
    /// Creates features for a part of a model; `sizes` are the number of features and the width of a head.
    pub fn new(
        features: Features,
        sizes: [usize; 2],
        norms: RowNorms,
        redraw: usize,
        init: &Init,
    ) -> Self {
        Self {
            features,
            sizes,
            norms,
            redraw: redraw as u64,
            seed: init.seed_and_part(),
            given: None,
            cached_draw: Arc::default(),
        }
    }

    /// Uses these vectors, row after row, in place of draws.
    pub(super) fn set_vectors(&mut self, rows: Vec<f32>) {
        let d = self.sizes[1].max(1);
        assert!(rows.len().is_multiple_of(d), "whole random vectors");
        self.sizes[0] = rows.len() / d;
        self.given = Some(rows.into());
    }

    /// Returns the feature map for a pass.
    pub fn feature_map(&self, pass: &Pass, device: &Device) -> FeatureMap {
        let rows = match &self.given {
            Some(rows) => rows.clone(),
            None => {
                let step = pass.step().unwrap_or(0);
                self.vectors(step.checked_div(self.redraw).unwrap_or(0))
            }
        };
        let projection = TensorData::new(rows.to_vec(), self.sizes);
        FeatureMap {
            features: self.features,
            projection: Some(Tensor::from_data(projection, device)),
        }
    }

    /// Returns the vectors of a draw.
    fn vectors(&self, number: u64) -> Arc<[f32]> {
        let mut drawn = self
            .cached_draw
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*drawn {
            Some((of, rows)) if *of == number => rows.clone(),
            _ => {
                let [seed, part] = self.seed;
                let stream = Stream::new(seed, Purpose::Features, (number, part, 0));
                let rows: Arc<[f32]> = draw_orthogonal(self.sizes, self.norms, stream).into();
                *drawn = Some((number, rows.clone()));
                rows
            }
        }
    }
}

/// Draws `rows` random vectors of `d` elements, orthogonal in blocks of `d`.
pub fn draw_orthogonal([rows, d]: [usize; 2], norms: RowNorms, mut stream: Stream) -> Vec<f32> {
    let mut all = Vec::with_capacity(rows * d);
    while all.len() < rows * d {
        for row in orthogonal_block(d, &mut stream) {
            let norm = match norms {
                RowNorms::Constant => (d as f64).sqrt(),
                RowNorms::Chi => normals(d, &mut stream)
                    .iter()
                    .map(|x| x * x)
                    .sum::<f64>()
                    .sqrt(),
            };
            all.extend(row.iter().map(|x| (x * norm) as f32));
        }
    }
    all.truncate(rows * d);
    all
}

fn normals(d: usize, stream: &mut Stream) -> Vec<f64> {
    (0..d).map(|_| f64::from(stream.normal())).collect()
}

/// Draws `d` orthogonal vectors of length 1 in random directions.
fn orthogonal_block(d: usize, stream: &mut Stream) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(d);
    while rows.len() < d {
        let mut row = normals(d, stream);
        // Done twice, since one pass leaves rounding errors along the other rows.
        for _ in 0..2 {
            for other in &rows {
                let along = dot(&row, other);
                row.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let norm = dot(&row, &row).sqrt();
        // If a vector lies within the span of the others, only rounding errors are left, and it is drawn again.
        if norm > 1e-6 {
            rows.push(row.iter().map(|x| x / norm).collect());
        }
    }
    rows
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(draw: u64) -> Stream {
        Stream::new(5, Purpose::Features, (draw, 0, 0))
    }

    #[test]
    fn rows_of_a_block_are_orthogonal_and_their_lengths_are_as_asked() {
        let d = 12;
        let rows = draw_orthogonal([30, d], RowNorms::Constant, stream(0));
        let row =
            |i: usize| -> Vec<f64> { rows[i * d..][..d].iter().map(|x| f64::from(*x)).collect() };
        for (i, j) in (0..30).flat_map(|i| (0..30).map(move |j| (i, j))) {
            let product = dot(&row(i), &row(j));
            if i == j {
                assert!((product - d as f64).abs() < 1e-4);
            } else if i / d == j / d {
                assert!(product.abs() < 1e-4, "{i} {j}: {product}");
            }
        }
        let draws = 200;
        let squares: f64 = (0..draws)
            .map(|draw| {
                let rows = draw_orthogonal([3, d], RowNorms::Chi, stream(draw));
                rows.iter().map(|x| f64::from(x * x)).sum::<f64>() / 3.0
            })
            .sum();
        let mean = squares / draws as f64;
        // A χ² variable with 12 degrees of freedom has variance 24; the mean of 600 of them is within 4 standard errors.
        assert!(
            (mean - d as f64).abs() < 4.0 * (24.0f64 / 600.0).sqrt(),
            "{mean}"
        );
        assert_ne!(stream(0).next_u32(), stream(1).next_u32());
    }
}
