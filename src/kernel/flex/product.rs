//! Matrix products through the `gemm` crate, behind a checked interface.

use std::ops::Range;

use gemm::Parallelism;
use rayon::prelude::*;

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

/// Rows or columns of the output that one task makes, about: few enough that all threads have work and a slow one
/// does not hold up the others, enough that packing the other matrix for each task does not count.
const STRIP: usize = 320;

/// Strips are whole blocks of the inner kernels.
const BLOCK: usize = 48;

/// The width of strips that a dimension is cut into; by its size alone, so that results do not depend on the
/// number of threads.
fn strip(len: usize) -> usize {
    let pairs = ((len + STRIP) / (2 * STRIP)).max(1);
    len.div_ceil(2 * pairs).next_multiple_of(BLOCK)
}

/// `out = factor·left·right (+ out)`; `out` is stored row after row.
pub fn product(out: &mut [f32], left: Matrix, right: Matrix, into: Put) {
    let ([m, k], [inner, n]) = (left.shape, right.shape);
    assert_eq!(k, inner, "the inner dimensions of a matrix product");
    assert_eq!(out.len(), m * n, "the output of a matrix product");
    assert!(left.fits() && right.fits(), "a matrix inside its slice");
    if m == 0 || n == 0 {
        return;
    }
    let whole = Strip {
        out: Output(out.as_mut_ptr()),
        rows: 0..m,
        columns: 0..n,
    };
    if !into.threads || m * n * k < THREADS_FROM {
        return whole.make(left, right, into);
    }
    let width = strip(m.max(n));
    (0..m.max(n).div_ceil(width))
        .into_par_iter()
        .with_max_len(1)
        .for_each(|i| whole.cut(i * width, width).make(left, right, into));
}

/// Where the output starts.
#[derive(Clone, Copy)]
struct Output(*mut f32);

// SAFETY: the pointer is only followed in `Strip::make`, and strips that exist at one time do not overlap.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

/// A part of the output: all rows or all columns of it at least.
struct Strip {
    out: Output,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Strip {
    /// `width` of its longer side from `first` on.
    fn cut(&self, first: usize, width: usize) -> Self {
        let (rows, columns) = (self.rows.end, self.columns.end);
        let part = |end: usize| first..(first + width).min(end);
        Self {
            out: self.out,
            rows: if rows >= columns { part(rows) } else { 0..rows },
            columns: if rows >= columns {
                0..columns
            } else {
                part(columns)
            },
        }
    }

    /// Makes it on the calling thread.
    fn make(&self, left: Matrix, right: Matrix, into: Put) {
        let (k, n) = (left.shape[1], right.shape[1]);
        let (first, column) = (self.rows.start, self.columns.start);
        // SAFETY: `product` checked that the three matrices lie inside their slices and borrows the output
        // exclusively, so it overlaps neither input; the strip's rows and columns are inside the output's, and no
        // other strip has them.
        unsafe {
            gemm::gemm(
                self.rows.len(),
                self.columns.len(),
                k,
                self.out.0.add(first * n + column),
                1,
                n as isize,
                into.add,
                left.data.as_ptr().add(first * left.strides[0]),
                left.strides[1] as isize,
                left.strides[0] as isize,
                right.data.as_ptr().add(column * right.strides[1]),
                right.strides[1] as isize,
                right.strides[0] as isize,
                1.0,
                into.factor,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Matrix, Put, STRIP, product, strip};

    #[test]
    fn strips_cover_a_dimension() {
        for len in 1..5000 {
            let width = strip(len);
            assert!(width > 0 && width <= 2 * STRIP + 48, "{len}: {width}");
        }
    }

    /// Every way to lie in memory, added and replaced, over sizes around those of strips.
    #[test]
    fn products_in_strips_are_products() {
        for [m, k, n] in [
            [1, 500, 200],
            [2, 40, 391],
            [7, 300, 1000],
            [16, 33, 192],
            [1, 200, 5000],
            [97, 96, 97],
            [700, 33, 65],
            [64, 40, 1001],
            [321, 20, 320],
        ] {
            let number = |i: usize| ((i * 7919) % 23) as f32 - 11.0;
            let [a, b] = [m * k, k * n].map(|len| (0..len).map(number).collect::<Vec<f32>>());
            for (turned, add) in [(false, false), (true, true), (false, true)] {
                let (left, right) = if turned {
                    let left = Matrix::rows(&a, [k, m]).transposed();
                    (left, Matrix::rows(&b, [n, k]).transposed())
                } else {
                    (Matrix::rows(&a, [m, k]), Matrix::rows(&b, [k, n]))
                };
                let mut out = vec![1.0; m * n];
                let put = if add { Put::ADD } else { Put::REPLACE };
                product(&mut out, left, right, put.times(0.5));
                for at in (0..m * n).step_by(1 + m * n / 997) {
                    let (row, column) = (at / n, at % n);
                    let each = |i: usize| {
                        let x = a[row * left.strides[0] + i * left.strides[1]];
                        x * b[i * right.strides[0] + column * right.strides[1]]
                    };
                    let sum: f32 = (0..k).map(each).sum();
                    let begin = if add { 1.0 } else { 0.0 };
                    assert_eq!(
                        out[at],
                        begin + 0.5 * sum,
                        "{m}x{k}x{n}, {turned}, {add}: {at}"
                    );
                }
            }
        }
    }
}
