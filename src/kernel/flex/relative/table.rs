//! A table of vectors of distances as the tiles read it: rows that rise with the diagonal, in the order of products.

use std::ops::Range;

use burn_flex::FlexTensor;

use super::super::attention::Place;
use super::super::buffer::{contiguous, dims, made, slice, tensor};
use super::super::product::{Matrix, Packed, Put, product};
use super::super::threads;
use super::diagonals::{Band, Diagonals};
use crate::kernel::DistanceRows;

/// Rows of a table that a task copies.
pub const ROWS: usize = 64;

/// A table whose rows rise with the diagonal.
pub struct Table {
    /// `[1 or H, rows, D]`.
    numbers: FlexTensor,
    /// The row of each diagonal.
    pub diagonals: Diagonals,
    /// Whether the rows were turned round.
    pub turned: bool,
    /// A copy for each head, where many queries use it.
    packed: Vec<Packed>,
}

impl Table {
    /// Reads a table, copied where its rows fall or do not lie in order; `packs` for many queries.
    pub fn new(x: FlexTensor, rows: &DistanceRows, packs: bool) -> Self {
        let by_diagonal = rows.by_diagonal();
        let turned = by_diagonal.first() > by_diagonal.last();
        let [heads, count, width] = dims(&x);
        let numbers = match turned || !x.layout().is_contiguous() {
            true => tensor(copied(x, turned), [heads, count, width]),
            false => contiguous(x),
        };
        let rising = |row: &u32| if turned { count as u32 - 1 - row } else { *row };
        let mut table = Self {
            numbers,
            diagonals: Diagonals::new(by_diagonal.iter().map(rising).collect()),
            turned,
            packed: Vec::new(),
        };
        if packs {
            let copy = |head| Packed::new(table.rows(head, &(0..count)).transposed());
            table.packed = threads::map(0..heads, copy);
        }
        table
    }

    /// Heads, rows and width.
    pub fn sizes(&self) -> [usize; 3] {
        dims(&self.numbers)
    }

    /// The number of a query head's table.
    fn own(&self, head: usize) -> usize {
        if self.sizes()[0] == 1 { 0 } else { head }
    }

    /// Rows of a head, `[rows, D]`.
    pub fn rows(&self, head: usize, rows: &Range<usize>) -> Matrix<'_> {
        let [_, count, width] = self.sizes();
        let first = (self.own(head) * count + rows.start) * width;
        Matrix::rows(
            &slice(&self.numbers)[first..][..rows.len() * width],
            [rows.len(), width],
        )
    }

    /// The rows that a place reads.
    pub fn band(&self, place: Place, n_q: usize) -> Band {
        let copied = !self.packed.is_empty();
        let start = |row| if copied { Packed::start(row) } else { row };
        self.diagonals.band(place, n_q, start)
    }

    /// The products of vectors `[_, D]` with the rows of a band.
    pub fn products(&self, out: &mut [f32], left: Matrix, head: usize, band: &Band, into: Put) {
        let rows = band.rows.clone();
        match self.packed.get(self.own(head)) {
            Some(table) => table.product(out, left, rows, into),
            None => product(out, left, self.rows(head, &rows).transposed(), into),
        }
    }
}

/// The numbers of a table one after the other, the rows of each head the other way round where it is `turned`.
fn copied(x: FlexTensor, turned: bool) -> Vec<f32> {
    let x = match x.layout().strides() {
        [down, across, 1] if *down >= 0 && *across >= 0 => x,
        _ => contiguous(x),
    };
    let ([heads, count, width], layout) = (dims::<3>(&x), x.layout());
    let [down, across] = [0, 1].map(|i| layout.strides()[i] as usize);
    let len = heads * count * width;
    made(len, (ROWS * width).max(1), |first, out| {
        for (i, to) in out.chunks_exact_mut(width).enumerate() {
            let (head, row) = ((first / width + i) / count, (first / width + i) % count);
            let row = if turned { count - 1 - row } else { row };
            let at = layout.start_offset() + head * down + row * across;
            to.copy_from_slice(&slice(&x)[at..at + width]);
        }
    })
}
