//! A right operand that many products use: copied once, in the order in which they read it. Products of [`Packed`]
//! use some of its columns, those of [`PackedRows`] some of its rows.

use std::ops::Range;

use super::pack::{self, Aligned};
use super::registers::{Broadcast, Panel};
use super::tasks::Rows;
use super::{DEPTH, InitialSums, Matrix, Part, Product, WriteMode, block, pieces};

/// A copied operand of which each product uses some columns.
pub struct Packed {
    buffer: Aligned,
    inner: usize,
    columns: usize,
}

impl Packed {
    /// Maximum number of columns by which [`Self::start`] may go back.
    pub const BACK: usize = 63;

    /// Returns the last column, at or before this one, at which a panel begins.
    pub fn start(column: usize) -> usize {
        column / block::panel() * block::panel()
    }

    /// Copies the operand, on the calling thread.
    pub fn new(right: Matrix) -> Self {
        assert!(right.fits(), "a matrix inside its slice");
        let [inner, columns] = right.shape;
        let width = block::panel();
        let whole = columns.next_multiple_of(width);
        let mut buffer = Aligned::unused(whole * inner);
        let mut rest = buffer.room(whole * inner);
        for steps in pieces(0..inner, DEPTH) {
            let (panels, next) = rest.split_at_mut(whole * steps.len());
            pack::panels(panels, right, steps, 0..columns, width);
            rest = next;
        }
        Self {
            buffer,
            inner,
            columns,
        }
    }

    /// Computes `out = factor·left·right[columns] (+ out)` on the calling thread. `columns` must start where a panel
    /// does, such as at a multiple of 64, and rows of `left` must be contiguous.
    pub fn product(&self, out: &mut [f32], left: Matrix, columns: Range<usize>, into: WriteMode) {
        let width = block::panel();
        assert!(columns.start.is_multiple_of(width) && columns.end <= self.columns);
        assert_eq!(left.strides[1], 1, "contiguous rows");
        let numbers = self.buffer.numbers();
        // Used for its sizes only: the elements are read as panels.
        let right = Matrix {
            data: numbers,
            shape: [self.inner, columns.len()],
            strides: [0, 0],
        };
        let begin = if into.add {
            InitialSums::Out
        } else {
            InitialSums::Zero
        };
        let product = Product::new(out, left, right, begin, into);
        if left.shape[0] == 0 || columns.is_empty() {
            return;
        }
        if self.inner == 0 {
            return product.write_empty();
        }
        let part = Part {
            rows: 0..left.shape[0],
            columns: 0..columns.len(),
        };
        let whole = self.columns.next_multiple_of(width);
        for steps in pieces(0..self.inner, DEPTH) {
            let first = whole * steps.start + columns.start * steps.len();
            product.part(&part, steps, &Rows::Direct(left), &numbers[first..]);
        }
    }
}

/// A copied operand of which each product uses some rows, such as the values of a chunk of keys.
pub struct PackedRows {
    buffer: Aligned,
    rows: usize,
    columns: usize,
}

impl PackedRows {
    /// Copies the operand, on the calling thread.
    pub fn new(right: Matrix) -> Self {
        assert!(right.fits(), "a matrix inside its slice");
        let [rows, columns] = right.shape;
        let width = block::panel();
        let len = columns.next_multiple_of(width) * rows;
        let mut buffer = Aligned::unused(len);
        let panels = buffer.room(len);
        pack::panels(panels, right, 0..rows, 0..columns, width);
        Self {
            buffer,
            rows,
            columns,
        }
    }

    /// Computes `out = factor·left·right[rows] (+ out)` on the calling thread, all rows at once; rows of `left` must
    /// be contiguous.
    pub fn product(&self, out: &mut [f32], left: Matrix, rows: Range<usize>, into: WriteMode) {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert_eq!(left.strides[1], 1, "contiguous rows");
        let (width, numbers) = (block::panel(), self.buffer.numbers());
        // Used for its sizes only, as above.
        let right = Matrix {
            data: numbers,
            shape: [rows.len(), self.columns],
            strides: [0, 0],
        };
        let begin = if into.add {
            InitialSums::Out
        } else {
            InitialSums::Zero
        };
        let product = Product::new(out, left, right, begin, into);
        if left.shape[0] == 0 || self.columns == 0 {
            return;
        }
        if rows.is_empty() {
            return product.write_empty();
        }
        assert!(numbers.len() >= self.columns.next_multiple_of(width) * self.rows);
        let part = Part {
            rows: 0..left.shape[0],
            columns: 0..self.columns,
        };
        let panel = Panel {
            at: numbers[rows.start * width..].as_ptr(),
            step: width,
            ahead: 0,
        };
        let broadcast = Broadcast {
            at: left.data.as_ptr(),
            rows: left.strides[0],
            step: 1,
        };
        let sweep = product.sweep(&part, 0..rows.len(), broadcast, panel, width * self.rows);
        // SAFETY: the left operand was checked to be inside its slice, the output is as large as the part, and every
        // panel has `self.rows` rows, which include those that are read.
        unsafe { sweep.run() };
    }
}
