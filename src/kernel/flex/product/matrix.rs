//! An operand of a product: where its numbers lie.

/// More than copies of operands are filled up by in either direction.
const FILLED: usize = 64;

/// Numbers of the longest slice that there can be.
const LONGEST: usize = isize::MAX as usize / size_of::<f32>();

/// A matrix of float32 somewhere in a slice; strides in elements.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// Starts at the matrix's first element.
    pub data: &'a [f32],
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Distance between rows and between columns.
    pub strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// A matrix stored row after row.
    pub fn rows(data: &'a [f32], shape: [usize; 2]) -> Self {
        Self {
            data,
            shape,
            strides: [shape[1], 1],
        }
    }

    /// Rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            shape: [self.shape[1], self.shape[0]],
            strides: [self.strides[1], self.strides[0]],
        }
    }

    /// Whether its last number is in the slice, and a copy of it, whose rows or columns are filled up to whole panels, is
    /// no longer than memory can be.
    pub(super) fn fits(&self) -> bool {
        let last = |i: usize| (self.shape[i].max(1) - 1).checked_mul(self.strides[i]);
        let last = last(0).zip(last(1)).and_then(|(a, b)| a.checked_add(b));
        let filled = self.shape.map(|n| n.checked_add(FILLED));
        let copy = filled[0].zip(filled[1]).and_then(|(a, b)| a.checked_mul(b));
        let inside = last.is_some_and(|last| last < self.data.len());
        copy.is_some_and(|len| len <= LONGEST) && (self.shape.contains(&0) || inside)
    }
}
