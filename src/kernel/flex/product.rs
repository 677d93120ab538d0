//! Matrix products through the `gemm` crate, behind a checked interface.

use gemm::Parallelism;

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

    fn fits(&self) -> bool {
        let last = |i: usize| (self.shape[i].max(1) - 1) * self.strides[i];
        self.shape.contains(&0) || last(0) + last(1) < self.data.len()
    }
}

/// How a product is put into its output.
#[derive(Clone, Copy)]
pub struct Put {
    /// Factor of the product.
    pub factor: f32,
    /// Add to what is there instead of replacing it.
    pub add: bool,
    /// May use all threads.
    pub threads: bool,
}

impl Put {
    /// Replaces the output, on all threads when the product is large.
    pub const REPLACE: Self = Self {
        factor: 1.0,
        add: false,
        threads: true,
    };
    /// Adds to the output, on all threads when the product is large.
    pub const ADD: Self = Self {
        factor: 1.0,
        add: true,
        threads: true,
    };
    /// Replaces the output, on the calling thread.
    pub const TILE: Self = Self {
        factor: 1.0,
        add: false,
        threads: false,
    };
    /// Adds to the output, on the calling thread.
    pub const ADD_TILE: Self = Self {
        factor: 1.0,
        add: true,
        threads: false,
    };

    /// With another factor.
    pub fn times(self, factor: f32) -> Self {
        Self { factor, ..self }
    }
}

/// Multiply-adds from which a second thread pays: 96³.
const THREADS_FROM: usize = 96 * 96 * 96;

/// `out = factor·left·right (+ out)`; `out` is stored row after row.
pub fn product(out: &mut [f32], left: Matrix, right: Matrix, into: Put) {
    let ([m, k], [inner, n]) = (left.shape, right.shape);
    assert_eq!(k, inner, "the inner dimensions of a matrix product");
    assert_eq!(out.len(), m * n, "the output of a matrix product");
    assert!(left.fits() && right.fits(), "a matrix inside its slice");
    if m == 0 || n == 0 {
        return;
    }
    let parallelism = if into.threads && m * n * k >= THREADS_FROM {
        Parallelism::Rayon(0)
    } else {
        Parallelism::None
    };
    // SAFETY: the assertions above bound every element that the three pointers are read or written at;
    // `out` is exclusively borrowed, so it overlaps neither input.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            into.add,
            left.data.as_ptr(),
            left.strides[1] as isize,
            left.strides[0] as isize,
            right.data.as_ptr(),
            right.strides[1] as isize,
            right.strides[0] as isize,
            1.0,
            into.factor,
            false,
            false,
            false,
            parallelism,
        );
    }
}
