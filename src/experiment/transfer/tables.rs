//! Parameters that are not taken as they stand: tables of positions in other lengths, sums.

use super::Sums;
use crate::device;
use crate::error::Result;
use crate::model::ModelConfig;
use crate::nn::position::Grid;
use crate::nn::position::resample::{repeat, resample_grid, stretch};
use crate::task::Objective;
use crate::train::checkpoint::weights as stored;
use crate::train::transfer::Lengthen;
use burn::tensor::{Tensor, TensorData};
use std::path::Path;

/// A table of positions for another number of them, whose rows lie between the old ones or repeat them: of the patches of
/// images of the first size for those of the second by their two sides, of a text along it. `None` when it is no such
/// table.
pub(super) fn resampled(
    model: &ModelConfig,
    images: [Option<[usize; 3]>; 2],
    data: &TensorData,
    shape: &[usize],
    how: Lengthen,
) -> Option<TensorData> {
    let (&[from, width], &[to, d]) = (&data.shape().to_vec()[..], shape) else {
        return None;
    };
    let transformer = model.transformer();
    let resamples = transformer.is_some_and(|model| model.stack.position.facts().has_a_row_each());
    if width != d || from == 0 || !resamples {
        return None;
    }
    let table: Vec<f32> = data.iter::<f32>().collect();
    if how == Lengthen::Repeat {
        let values = repeat(&table, [from, to], d, reserved(model))?;
        return Some(TensorData::new(values, [to, d]).convert_dtype(data.dtype()));
    }
    let values = match images.map(|image| model.grid(image)) {
        [Some(theirs), Some(ours)] => {
            if theirs.positions() != from || ours.positions() != to {
                return None;
            }
            let data = TensorData::new(table, [from, d]);
            let table = Tensor::<2>::from_data(data, &device::host());
            let sides = |grid: Grid| [grid.rows, grid.cols];
            let table = resample_grid(table, sides(theirs), sides(ours), ours.class_token);
            table.into_data().iter::<f32>().collect()
        }
        _ => stretch(&table, [from, to], d, reserved(model))?,
    };
    Some(TensorData::new(values, [to, d]).convert_dtype(data.dtype()))
}

/// Rows at the head of the table of positions that are no position's.
fn reserved(model: &ModelConfig) -> usize {
    let transformer = model.transformer();
    transformer.map_or(0, |model| model.stack.position.facts().reserved())
}

/// The model in which those of the parameters that were `taken` from a file are the sums that they are read as.
pub(super) fn summed(
    model: Objective,
    file: &Path,
    sums: Sums,
    taken: &[String],
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
        Some((path.clone(), sum.convert_dtype(one.dtype())))
    });
    let sums = sums.collect();
    Ok(stored::fill(model, sums))
}
