//! An operand of a product, as a view into a slice.

/// More than the padding that copies of operands get in either direction.
const MAX_PADDING: usize = 64;

/// Maximum number of elements of a slice.
const MAX_LEN: usize = isize::MAX as usize / size_of::<f32>();

/// A float32 matrix within a slice; strides are in elements.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// Elements, starting at the matrix's first one.
    pub data: &'a [f32],
    /// Numbers of rows and columns.
    pub shape: [usize; 2],
    /// Distances between rows and between columns.
    pub strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// Wraps a matrix stored row after row.
    pub fn rows(data: &'a [f32], shape: [usize; 2]) -> Self {
        Self {
            data,
            shape,
            strides: [shape[1], 1],
        }
    }

    /// Returns the transpose.
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            shape: [self.shape[1], self.shape[0]],
            strides: [self.strides[1], self.strides[0]],
        }
    }

    /// Returns whether the last element is inside the slice, and whether a copy with rows or columns padded to whole
    /// panels can be allocated.
    pub(super) fn fits(&self) -> bool {
        let last = |i: usize| (self.shape[i].max(1) - 1).checked_mul(self.strides[i]);
        let last = last(0).zip(last(1)).and_then(|(a, b)| a.checked_add(b));
        let filled = self.shape.map(|n| n.checked_add(MAX_PADDING));
        let copy = filled[0].zip(filled[1]).and_then(|(a, b)| a.checked_mul(b));
        let inside = last.is_some_and(|last| last < self.data.len());
        copy.is_some_and(|len| len <= MAX_LEN) && (self.shape.contains(&0) || inside)
    }
}
