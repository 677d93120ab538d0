//! Matrix products `out = factor·left·right`, which replace the output, are added to it, or start from a bias.
//!
//! The right operand is copied into panels as wide as a register block, once for all threads if many rows use it
//! (`pack`, `tasks`), and rows of the left operand are broadcast over them (`block`). A product of a few rows reads
//! its right operand in place (`few`). Every element is summed in the same order for any number of threads.

mod block;
mod dots;
mod grouped;
mod in_place;
mod matrix;
mod pack;
mod packed;
mod panel_operand;
mod registers;
mod tasks;
mod write_mode;

use std::ops::Range;

use crate::kernel::flex::threads;
use block::Sweep;
use registers::{Broadcast, Panel, Target};
use tasks::{COLUMNS, Part};

pub use grouped::{Grouped, grouped_products};
pub use matrix::Matrix;
pub use packed::{Packed, PackedRows};
pub use panel_operand::product_with_panels;
pub use registers::{step1, step4};
pub use write_mode::WriteMode;

/// Number of multiply-adds from which a second thread pays off.
const PARALLEL_FROM: usize = 64 * 64 * 64;

/// Number of elements of the right operand from which reading them on two threads pays off, however few the rows.
const PARALLEL_READ_FROM: usize = 64 * 1024;

/// Number of steps of the inner dimension processed at a time: a panel of them stays in a core's L2 cache together
/// with others.
const DEPTH: usize = 384;

/// Number of rows up to which each task copies its own columns.
const OWN_COPY_ROWS: usize = 384;

/// Minimum number of columns copied together: rows that each task copies itself are copied again for the next
/// columns.
const MIN_SHARED_COLUMNS: usize = 1024;

/// Number of steps of the inner dimension from which the right operand counts as long.
const LONG_INNER: usize = 2048;

/// Number of rows of a register block.
const HEIGHT: usize = 6;

/// Size of the left operand and number of columns from which a left operand with contiguous columns instead of rows
/// is copied.
const COPIED_FROM: [usize; 2] = [256 * 1024, 65];

/// Strides that are multiples of this many elements, 2 KiB, share a few sets of a core's caches.
const CONFLICTING_STRIDE: usize = 512;

/// Number of elements of an operand copied at a time: 16 MiB.
const MAX_COPIED: usize = 1 << 22;

/// Computes `out = factor·left·right (+ out)`; `out` is stored row after row.
pub fn product(out: &mut [f32], left: Matrix, right: Matrix, into: WriteMode) {
    let begin = if into.add {
        InitialSums::Out
    } else {
        InitialSums::Zero
    };
    Product::new(out, left, right, begin, into).make();
}

/// Computes `out = left·right + row`, with `row`, such as a bias, added to every row.
pub fn product_plus_row(out: &mut [f32], left: Matrix, right: Matrix, row: &[f32]) {
    let begin = InitialSums::from_row(Some(row), right.shape[1]);
    Product::new(out, left, right, begin, WriteMode::REPLACE).make();
}

/// Returns `left·right`, plus `row` on every row if given, stored row after row.
pub fn product_new(left: Matrix, right: Matrix, row: Option<&[f32]>) -> Vec<f32> {
    let begin = InitialSums::from_row(row, right.shape[1]);
    allocate_output(left, right, begin, |product| product.make())
}

/// Allocates the output of a product; `make` must write all of it.
fn allocate_output(
    left: Matrix,
    right: Matrix,
    begin: InitialSums,
    make: impl FnOnce(&Product),
) -> Vec<f32> {
    let len = left.shape[0].checked_mul(right.shape[1]);
    let len = len.expect("a matrix that fits into memory");
    let mut out = Vec::with_capacity(len);
    let places = &mut out.spare_capacity_mut()[..len];
    let at = places.as_mut_ptr().cast();
    make(&Product::at(
        (at, len),
        left,
        right,
        begin,
        WriteMode::REPLACE,
    ));
    // SAFETY: this many elements were reserved, and each is written: the parts of a product cover all rows and
    // columns, each part is written however it starts, and sums start with zeros or the row, never with the output's
    // old content.
    unsafe { out.set_len(len) };
    out
}

/// The values that sums start with.
#[derive(Clone, Copy)]
enum InitialSums<'a> {
    Zero,
    Out,
    Row(&'a [f32]),
}

impl<'a> InitialSums<'a> {
    /// Returns the start for a row that is added to every row, if there is one.
    fn from_row(row: Option<&'a [f32]>, columns: usize) -> Self {
        let Some(row) = row else {
            return InitialSums::Zero;
        };
        assert_eq!(row.len(), columns, "one number of the row a column");
        InitialSums::Row(row)
    }
}

/// A product whose operands fit each other. The output is borrowed for its lifetime.
#[derive(Clone, Copy)]
struct Product<'a> {
    left: Matrix<'a>,
    right: Matrix<'a>,
    out: *mut f32,
    begin: InitialSums<'a>,
    factor: f32,
    threads: bool,
}

// SAFETY: the output is only written, in parts that do not overlap; everything else is shared slices.
unsafe impl Send for Product<'_> {}
// SAFETY: as above.
unsafe impl Sync for Product<'_> {}

impl<'a> Product<'a> {
    fn new(
        out: &'a mut [f32],
        left: Matrix<'a>,
        right: Matrix<'a>,
        begin: InitialSums<'a>,
        into: WriteMode,
    ) -> Self {
        Self::at((out.as_mut_ptr(), out.len()), left, right, begin, into)
    }

    /// Creates a product into memory that only the caller uses, which is read only if sums start with it.
    fn at(
        (out, len): (*mut f32, usize),
        left: Matrix<'a>,
        right: Matrix<'a>,
        begin: InitialSums<'a>,
        into: WriteMode,
    ) -> Self {
        let ([m, k], [inner, n]) = (left.shape, right.shape);
        assert_eq!(k, inner, "the inner dimensions of a matrix product");
        let numbers = m.checked_mul(n);
        assert_eq!(Some(len), numbers, "the output of a matrix product");
        assert!(left.fits() && right.fits(), "a matrix inside its slice");
        let operations = (m * n).saturating_mul(k);
        Self {
            left,
            right,
            out,
            begin,
            factor: into.factor,
            threads: into.threads && (operations >= PARALLEL_FROM || n * k >= PARALLEL_READ_FROM),
        }
    }

    /// Returns the numbers of rows, inner steps and columns.
    fn sizes(&self) -> [usize; 3] {
        [self.left.shape[0], self.left.shape[1], self.right.shape[1]]
    }

    fn make(&self) {
        let [m, k, n] = self.sizes();
        if m == 0 || n == 0 {
            return;
        }
        if k == 0 {
            return self.write_empty();
        }
        if in_place::applies(self) {
            return in_place::make(self);
        }
        let mut buffer = pack::take_shared_buffer();
        // By rows if there are too few columns for all tasks. The threshold is lower for a long right operand, which
        // every task would read again.
        let columns = if k >= LONG_INNER {
            COLUMNS
        } else {
            2 * COLUMNS
        };
        if m > OWN_COPY_ROWS || self.threads && n < columns {
            let deepest = (MAX_COPIED / n.min(MIN_SHARED_COLUMNS) / DEPTH).max(1) * DEPTH;
            for inner in pieces(0..k, deepest) {
                let group = (MAX_COPIED / inner.len() / block::panel()).max(1) * block::panel();
                for columns in pieces(0..n, group) {
                    self.by_rows(&inner, columns, &mut buffer);
                }
            }
        } else {
            let group = match self.copies_left() {
                false => k,
                true => (MAX_COPIED / m / DEPTH).max(1) * DEPTH,
            };
            for inner in pieces(0..k, group) {
                self.by_columns(&inner, &mut buffer);
            }
        }
        pack::return_shared_buffer(buffer);
    }

    /// Returns whether the left operand is copied before use: its rows are not contiguous, and either it is large and
    /// each element is used often, or its stride makes rows evict each other from the caches.
    fn copies_left(&self) -> bool {
        let [m, k, n] = self.sizes();
        let [down, across] = self.left.strides;
        let [numbers, columns] = COPIED_FROM;
        let pays = m * k >= numbers && n >= columns || across.is_multiple_of(CONFLICTING_STRIDE);
        across != 1 && (down != 1 || pays)
    }

    /// Writes a product whose inner dimension is empty.
    fn write_empty(&self) {
        let [m, _, n] = self.sizes();
        match self.begin {
            // SAFETY: all of the output belongs to this product, and zero is all bits zero.
            InitialSums::Zero => unsafe { self.out.write_bytes(0, m * n) },
            InitialSums::Out => {}
            InitialSums::Row(row) => {
                assert_eq!(row.len(), n, "one number of the row a column");
                for first in (0..m).map(|row| row * n) {
                    // SAFETY: a row of the output, which belongs to this product and does not overlap `row`.
                    unsafe {
                        self.out
                            .add(first)
                            .copy_from_nonoverlapping(row.as_ptr(), n)
                    };
                }
            }
        }
    }

    /// Calls `work` for every item, on all threads if the product may use them.
    fn for_each_item<T: Send>(
        &self,
        items: impl Iterator<Item = T> + Send,
        work: impl Fn(T) + Sync,
    ) {
        if self.threads {
            threads::for_each(items, work);
        } else {
            items.for_each(work);
        }
    }

    /// Writes sums of adjacent columns to the output.
    #[inline(always)]
    fn put<const C: usize>(&self, row: usize, column: usize, sums: [f32; C]) {
        let n = self.right.shape[1];
        assert!(row < self.left.shape[0] && column + C <= n);
        let slots = self.out.wrapping_add(row * n + column).cast::<[f32; C]>();
        let begin = match self.begin {
            InitialSums::Zero => [0.0; C],
            // SAFETY: inside the output, in a part that only the calling task uses and whose content is initialised.
            InitialSums::Out => unsafe { slots.read() },
            InitialSums::Row(numbers) => std::array::from_fn(|i| numbers[column + i]),
        };
        let sums = std::array::from_fn(|i| sums[i].mul_add(self.factor, begin[i]));
        // SAFETY: as above.
        unsafe { slots.write(sums) };
    }

    /// Returns the description of a part of the output for some steps of the inner dimension.
    fn sweep(
        &self,
        part: &Part,
        inner: Range<usize>,
        left: Broadcast,
        right: Panel,
        next_panel: usize,
    ) -> Sweep {
        let n = self.right.shape[1];
        let (row, column) = (part.rows.start, part.columns.start);
        let at = self.out.wrapping_add(row * n + column);
        let (begin, begin_rows) = match self.begin {
            _ if inner.start > 0 => (Some(at.cast_const()), n),
            InitialSums::Zero => (None, 0),
            InitialSums::Out => (Some(at.cast_const()), n),
            InitialSums::Row(numbers) => (Some(numbers[column..].as_ptr()), 0),
        };
        Sweep {
            left,
            right,
            next_panel,
            out: Target {
                at,
                rows: n,
                begin,
                begin_rows,
                factor: self.factor,
            },
            rows: part.rows.len(),
            inner: inner.len(),
            columns: part.columns.len(),
        }
    }
}

/// Divides a range into pieces of `len`.
fn pieces(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(len)
        .map(move |first| first..(first + len).min(end))
}

#[cfg(test)]
mod tests;
