//! Parts of a tensor's third dimension, and sums composed of such parts.

use std::ops::Range;

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Slice;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::launch::zeros;

/// Returns a range of the third dimension (queries, keys or table rows) of a tensor; the full range is the tensor
/// itself.
pub fn part(x: &CubeTensor, range: Range<usize>) -> CubeTensor {
    if range.len() == x.shape()[2] {
        return x.clone();
    }
    CubeBackend::float_slice(x.clone(), &[Slice::full(), Slice::full(), range.into()])
}

/// Concatenates parts.
pub fn concat(mut parts: Vec<CubeTensor>) -> CubeTensor {
    match parts.len() {
        1 => parts.remove(0),
        _ => CubeBackend::float_cat(parts, 2),
    }
}

/// A sum over attention blocks, in their order; each block adds to a part of it.
pub struct PartSum {
    dims: [usize; 4],
    sum: Option<CubeTensor>,
}

impl PartSum {
    /// Starts an empty sum of these sizes.
    pub fn new(dims: [usize; 4]) -> Self {
        Self { dims, sum: None }
    }

    /// Adds to a part of the sum.
    pub fn add(&mut self, range: Range<usize>, more: CubeTensor) {
        if range.len() == self.dims[2] {
            self.sum = Some(match self.sum.take() {
                Some(sum) => CubeBackend::float_add(sum, more),
                None => more,
            });
            return;
        }
        let sum = self.sum.take().unwrap_or_else(|| zeros(&more, self.dims));
        let both = CubeBackend::float_add(part(&sum, range.clone()), more);
        let place = [Slice::full(), Slice::full(), range.into()];
        self.sum = Some(CubeBackend::float_slice_assign(sum, &place, both));
    }

    /// Returns the sum; zeros if no block added anything.
    pub fn total(self, beside: &CubeTensor) -> CubeTensor {
        self.sum.unwrap_or_else(|| zeros(beside, self.dims))
    }
}
