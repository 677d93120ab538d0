//! The operands of attention, head by head, where they lie.

use burn_flex::FlexTensor;

use super::buffer::{contiguous, dims, slice};
use super::product::Matrix;

/// A `[B, H, S, D]` tensor with any strides but a dense last dimension.
pub struct Heads {
    x: FlexTensor,
    strides: [usize; 3],
    offset: usize,
    /// Batch, heads, positions, size of a head.
    pub dims: [usize; 4],
}

impl Heads {
    /// Reads a tensor, copying it only when its last dimension is not dense.
    pub fn new(x: FlexTensor) -> Self {
        let regular = |x: &FlexTensor| {
            let strides = x.layout().strides();
            strides[3] == 1 && strides.iter().all(|&s| s >= 0)
        };
        let x = if regular(&x) { x } else { contiguous(x) };
        let strides = x.layout().strides();
        Self {
            strides: std::array::from_fn(|i| strides[i] as usize),
            offset: x.layout().start_offset(),
            dims: dims(&x),
            x,
        }
    }

    /// Positions `from .. from + len` of a head, as a matrix `[len, D]`.
    pub fn rows(&self, batch: usize, head: usize, from: usize, len: usize) -> Matrix<'_> {
        let at = batch * self.strides[0] + head * self.strides[1] + from * self.strides[2];
        Matrix {
            data: &slice(&self.x)[(self.offset + at).min(slice(&self.x).len())..],
            shape: [len, self.dims[3]],
            strides: [self.strides[2], 1],
        }
    }
}
