//! How similar positions are: the cosine similarity of the vectors that a position scheme adds for them (Dosovitskiy et
//! al. 2021, figure 7, for the patches of an image), and the biases that a scheme adds to attention scores by distance.

use super::weights::record_pass;
use crate::data::batch::Item;
use crate::nn::record::{PositionRecord, RecordSelection};
use crate::task::InferenceTask;
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// Cosine similarities between vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Similarity {
    /// Number of vectors.
    pub positions: usize,
    /// Cosines `[positions, positions]`, row by row; 0 for a vector of length 0.
    pub cosines: Vec<f64>,
}

impl Similarity {
    /// Computes the similarities of vectors `[positions, width]`.
    pub fn of(vectors: &TensorData) -> Self {
        let width = vectors.shape().last().copied().unwrap_or(1).max(1);
        let values: Vec<f64> = vectors.iter().collect();
        let rows: Vec<&[f64]> = values.chunks(width).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let lengths: Vec<f64> = rows.iter().map(|row| dot(row, row).sqrt()).collect();
        let mut cosines = Vec::with_capacity(rows.len() * rows.len());
        for (a, length) in rows.iter().zip(&lengths) {
            for (b, other) in rows.iter().zip(&lengths) {
                let both = length * other;
                cosines.push(if both > 0.0 { dot(a, b) / both } else { 0.0 });
            }
        }
        Self {
            positions: rows.len(),
            cosines,
        }
    }

    /// Returns the similarities of one position to all positions.
    pub fn row(&self, position: usize) -> &[f64] {
        &self.cosines[position * self.positions..][..self.positions]
    }
}

/// The biases of a head at each distance key − query.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadBias {
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// Biases from the furthest key before a query to the furthest key after it.
    pub biases: Vec<f64>,
}

/// Records what the position schemes do in a pass over an example, by network.
pub fn position_records(
    model: &dyn InferenceTask,
    example: &Item,
) -> BTreeMap<String, PositionRecord> {
    let keep = RecordSelection {
        positions: true,
        ..RecordSelection::default()
    };
    record_pass(model, example, keep).positions
}

/// Returns the biases of each head, and the distance of the first of them. Layers with the same biases as the layer
/// before are left out, since T5's and ALiBi's are the same in all layers.
pub fn biases(placed: &PositionRecord) -> (i64, Vec<HeadBias>) {
    let (mut first, mut all, mut before) = (0, Vec::new(), None);
    for (layer, (queries, data)) in &placed.biases {
        if before == Some(data) {
            continue;
        }
        before = Some(data);
        first = 1 - *queries as i64;
        let distances = data.shape().last().copied().unwrap_or(1).max(1);
        let values: Vec<f64> = data.iter().collect();
        let heads = values.chunks(distances).enumerate();
        all.extend(heads.map(|(head, biases)| HeadBias {
            layer: *layer,
            head,
            biases: biases.to_vec(),
        }));
    }
    (first, all)
}
