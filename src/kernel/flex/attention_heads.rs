//! The operands of attention, head by head, read from their own strides.

use burn_flex::FlexTensor;

use super::buffer::{ScratchBuffer, contiguous, dims, scratch_buffer, slice};
use super::product::Matrix;

/// A `[B, H, S, D]` tensor with any strides and a contiguous last dimension.
pub struct Heads {
    x: FlexTensor,
    strides: [usize; 3],
    offset: usize,
    /// Batch, heads, positions, head width.
    pub dims: [usize; 4],
}

impl Heads {
    /// Wraps a tensor, copying it only if its last dimension is not contiguous.
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

    /// Returns positions `from .. from + len` of a head as a matrix `[len, D]`.
    pub fn rows(&self, batch: usize, head: usize, from: usize, len: usize) -> Matrix<'_> {
        let at = batch * self.strides[0] + head * self.strides[1] + from * self.strides[2];
        Matrix {
            data: &slice(&self.x)[(self.offset + at).min(slice(&self.x).len())..],
            shape: [len, self.dims[3]],
            strides: [self.strides[2], 1],
        }
    }
}

/// The rows of a tile.
pub enum Rows<'a> {
    /// A view into the tensor.
    View(Matrix<'a>),
    /// A contiguous copy, with the width of a row. It pays off if several chunks of keys use it: in the tensor, rows
    /// are so far apart that they share a few sets of a core's L1 cache.
    Copied(ScratchBuffer, usize),
}

impl<'a> Rows<'a> {
    /// Wraps the rows of a matrix, or copies them.
    pub fn new(of: Matrix<'a>, copies: bool) -> Self {
        if !copies {
            return Self::View(of);
        }
        let [rows, columns] = of.shape;
        let mut copy = scratch_buffer(rows * columns);
        for (i, copy) in copy.chunks_exact_mut(columns.max(1)).enumerate() {
            copy.copy_from_slice(row(&of, i));
        }
        Self::Copied(copy, columns)
    }

    /// Returns the rows as a matrix.
    pub fn matrix(&self) -> Matrix<'_> {
        match self {
            Self::View(of) => *of,
            Self::Copied(copy, columns) => {
                Matrix::rows(copy, [copy.len() / (*columns).max(1), *columns])
            }
        }
    }
}

/// Returns a row of a matrix whose rows are contiguous.
pub fn row<'a>(of: &Matrix<'a>, i: usize) -> &'a [f32] {
    &of.data[i * of.strides[0]..][..of.shape[1]]
}
