//! Loads parameters that are stored as two summands in the other run's file.

use super::Sums;
use crate::error::Result;
use crate::task::Objective;
use crate::train::checkpoint::weights as stored;
use crate::train::transfer::{GrownTables, extend_token_table};
use burn::tensor::TensorData;
use std::path::Path;

/// Replaces those `taken` parameters that correspond to sums by the sum of both parameters in the file. If the file's
/// vocabulary is shorter, the model's own rows for the additional tokens are kept.
pub(super) fn apply_sums(
    model: Objective,
    file: &Path,
    sums: Sums,
    (taken, longer): (&[String], &GrownTables),
) -> Result<Objective> {
    if sums.is_empty() {
        return Ok(model);
    }
    let theirs = stored::read(file, &model)?;
    let sums = sums.iter().filter_map(|(path, other)| {
        let path = taken.iter().find(|taken| taken == path)?;
        let (one, other) = (theirs.get(path)?, theirs.get(*other)?);
        let pairs = one.iter::<f32>().zip(other.iter::<f32>());
        let sum: Vec<f32> = pairs.map(|(one, other)| one + other).collect();
        let sum = TensorData::new(sum, one.shape().clone());
        let rows = longer.get(path);
        let whole = rows.and_then(|rows| extend_token_table(&model, path, &sum, *rows));
        let sum = whole.unwrap_or(sum);
        Some((path.clone(), sum))
    });
    let sums = sums.collect();
    stored::fill(model, sums)
}
