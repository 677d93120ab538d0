//! The first filters of an image network, and their principal components (Dosovitskiy et al. 2021, figure 7 left: the
//! components of the patch embedding "resemble plausible basis functions").
//!
//! Each filter is a point whose coordinates are its pixels; the components are the directions in which the points,
//! after subtracting their mean, vary most.

use crate::model::ModelConfig;
use crate::train::parameters;
use burn::module::Module;
use burn::tensor::TensorData;
use nalgebra::{DMatrix, SymmetricEigen};

/// Filters over the pixels of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Filters {
    /// Path of the parameter that holds them.
    pub path: String,
    /// Channels, height and width of a filter.
    pub shape: [usize; 3],
    /// Filter by filter, each by channel, row and column.
    pub values: Vec<f32>,
}

/// Principal components of some filters.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// Unit vectors whose largest value is positive; the one with the most variance first.
    pub vectors: Vec<Vec<f64>>,
    /// Share of the variance of each vector.
    pub shares: Vec<f64>,
}

/// Returns the filters with which a network reads images: those of the patch embedding, or of the first convolution;
/// `None` for a network that reads no images.
pub fn first<M: Module>(model: &M, config: &ModelConfig, channels: usize) -> Option<Filters> {
    let all = parameters::list(model);
    let values = parameters::values(model);
    let ending = |end: &str| all.iter().find(|p| p.path.ends_with(end));
    if let Some(size) = config.patch_size() {
        let found = ending("stem.projection.weight")?;
        // One row for each filter.
        let matrix = values.get::<2>(found.id)?;
        return Some(Filters {
            path: found.path.clone(),
            shape: [channels, size, size],
            values: floats(matrix.into_data()),
        });
    }
    let found = all.iter().find(|p| p.shape.len() == 4)?;
    let [_, channels, height, width] = found.shape[..] else {
        return None;
    };
    Some(Filters {
        path: found.path.clone(),
        shape: [channels, height, width],
        values: floats(values.get::<4>(found.id)?.into_data()),
    })
}

fn floats(data: TensorData) -> Vec<f32> {
    data.convert::<f32>().iter().collect()
}

impl Filters {
    /// Returns the number of values in a filter.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the number of filters.
    pub fn count(&self) -> usize {
        self.values.len() / self.size().max(1)
    }

    /// Computes their first principal components, at most `most`.
    pub fn components(&self, most: usize) -> Components {
        let (count, size) = (self.count(), self.size());
        let each = self.values.iter().map(|x| f64::from(*x));
        let mut points = DMatrix::from_row_iterator(count, size, each);
        for mut column in points.column_iter_mut() {
            let mean = column.mean();
            column.add_scalar_mut(-mean);
        }
        // The smaller of the two Gram matrices has all nonzero eigenvalues.
        let wide = size > count;
        let product = match wide {
            true => &points * points.transpose(),
            false => points.transpose() * &points,
        };
        let whole = product.trace();
        let found = SymmetricEigen::new(product);
        let mut order: Vec<usize> = (0..found.eigenvalues.len()).collect();
        order.sort_by(|a, b| found.eigenvalues[*b].total_cmp(&found.eigenvalues[*a]));
        // n points, after subtracting their mean, span at most n − 1 directions.
        order.truncate(most.min(count.saturating_sub(1)));
        let vector = |number: &usize| {
            let vector = found.eigenvectors.column(*number);
            let vector = match wide {
                true => points.transpose() * vector,
                false => vector.into_owned(),
            };
            let length = vector.norm().max(f64::MIN_POSITIVE);
            let largest = vector
                .iter()
                .copied()
                .max_by(|a, b| a.abs().total_cmp(&b.abs()));
            let length = length.copysign(largest.unwrap_or(1.0));
            vector.iter().map(|x| x / length).collect()
        };
        let share =
            |number: &usize| found.eigenvalues[*number].max(0.0) / whole.max(f64::MIN_POSITIVE);
        Components {
            vectors: order.iter().map(vector).collect(),
            shares: order.iter().map(share).collect(),
        }
    }
}
