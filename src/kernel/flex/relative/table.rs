//! A table of vectors by distance, as the tiles read it.

use std::ops::Range;

use burn_flex::FlexTensor;

use super::super::attention::Place;
use super::super::buffer::{build_zeroed, contiguous, dims, slice, tensor};
use super::super::product::{Matrix, Packed, WriteMode, product};
use super::super::threads;
use super::diagonals::{Band, Diagonals};
use crate::kernel::DistanceRows;

/// Number of table rows that a task copies.
pub const ROWS: usize = 64;

/// A table of vectors by distance.
pub struct Table {
    /// The table, `[1 or H, rows, D]`.
    numbers: FlexTensor,
    /// The row of each diagonal.
    pub diagonals: Diagonals,
    /// Whether the rows are in reverse order, so that they increase with the diagonal.
    pub reversed: bool,
    /// A packed copy for each head, if many queries use it.
    packed: Vec<Packed>,
}

impl Table {
    /// Wraps a table. For many queries, `many`, it is packed for their products, and reversed if its rows decrease
    /// along the diagonals.
    pub fn new(x: FlexTensor, rows: &DistanceRows, many: bool) -> Self {
        let by_diagonal = rows.by_diagonal();
        let turned = many && by_diagonal.first() > by_diagonal.last();
        let [heads, count, width] = dims(&x);
        let x = match x.layout().strides() {
            [down, across, 1] if *down >= 0 && *across >= 0 => x,
            _ => contiguous(x),
        };
        let numbers = match turned {
            true => tensor(reverse_rows(x), [heads, count, width]),
            false => x,
        };
        let own = |row: &u32| if turned { count as u32 - 1 - row } else { *row };
        let mut table = Self {
            numbers,
            diagonals: Diagonals::new(by_diagonal.iter().map(own).collect(), many),
            reversed: turned,
            packed: Vec::new(),
        };
        if many {
            let copy = |head| Packed::new(table.rows(head, &(0..count)).transposed());
            table.packed = threads::map(0..heads, copy);
        }
        table
    }

    /// Returns the numbers of heads and rows, and the width.
    pub fn sizes(&self) -> [usize; 3] {
        dims(&self.numbers)
    }

    /// Returns the index of a query head's table.
    fn own(&self, head: usize) -> usize {
        if self.sizes()[0] == 1 { 0 } else { head }
    }

    /// Returns rows of a head, `[rows, D]`.
    pub fn rows(&self, head: usize, rows: &Range<usize>) -> Matrix<'_> {
        let head = self.own(head);
        rows_of(&self.numbers, head, rows.clone())
    }

    /// Returns the rows that a place reads.
    pub fn band(&self, place: Place, n_q: usize) -> Band {
        let copied = !self.packed.is_empty();
        let start = |row| if copied { Packed::start(row) } else { row };
        self.diagonals.band(place, n_q, start)
    }

    /// Computes the products of vectors `[_, D]` with the rows of a band.
    pub fn products(
        &self,
        out: &mut [f32],
        left: Matrix,
        head: usize,
        band: &Band,
        into: WriteMode,
    ) {
        let rows = band.rows.clone();
        match self.packed.get(self.own(head)) {
            Some(table) => table.product(out, left, rows, into),
            None => product(out, left, self.rows(head, &rows).transposed(), into),
        }
    }
}

/// Returns a view of rows of a head of a table.
fn rows_of(x: &FlexTensor, head: usize, rows: Range<usize>) -> Matrix<'_> {
    let (numbers, layout) = (slice(x), x.layout());
    let [down, across] = [0, 1].map(|i| layout.strides()[i] as usize);
    let at = layout.start_offset() + head * down + rows.start * across;
    Matrix {
        data: &numbers[at.min(numbers.len())..],
        shape: [rows.len(), dims::<3>(x)[2]],
        strides: [across, 1],
    }
}

/// Returns the elements of a table with the rows of each head in reverse order.
fn reverse_rows(x: FlexTensor) -> Vec<f32> {
    let [heads, count, width] = dims(&x);
    build_zeroed(
        heads * count * width,
        (ROWS * width).max(1),
        |first, out| {
            for (i, to) in out.chunks_exact_mut(width).enumerate() {
                let (head, row) = ((first / width + i) / count, (first / width + i) % count);
                let row = rows_of(&x, head, count - 1 - row..count - row);
                to.copy_from_slice(&row.data[..width]);
            }
        },
    )
}
