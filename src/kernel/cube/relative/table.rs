//! A table of vectors by distance on the device: products of queries, keys or outputs with its rows, and its
//! gradient. Its products use 32 bits unless TF32 is allowed, even in runs that round to bfloat16.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};

use super::diagonals::Numbers;
use crate::kernel::DistanceRows;
use crate::kernel::cube::blocks::Block;
use crate::kernel::cube::columns;
use crate::kernel::cube::launch::{SpacedRows, spaced_rows};
use crate::kernel::cube::multiply;
use crate::kernel::cube::parts::part;
use crate::kernel::cube::visibility_data::upload_integers;

/// A table and the rows it is read by.
pub struct Table {
    /// The table, `[1, 1 or H, rows, D]`.
    table: CubeTensor,
    rows: DistanceRows,
    /// The row of each diagonal, and the diagonals of each row.
    pub numbers: Numbers,
}

impl Table {
    /// Wraps a table `[1 or H, rows, D]` for a pass of this many queries.
    pub fn new(table: CubeTensor, rows: DistanceRows, queries: usize) -> Self {
        let [heads, count, width] = table.shape().dims();
        let numbers = Numbers {
            numbers: cached(&rows, count, &table.device()),
            diagonals: rows.by_diagonal().len(),
            queries,
        };
        Self {
            table: reshaped(table, [1, heads, count, width]),
            rows,
            numbers,
        }
    }

    /// Returns the sizes of the table's gradient.
    pub fn dims(&self) -> [usize; 4] {
        self.table.shape().dims()
    }

    /// Returns the range of rows that a block reaches.
    pub fn reached(&self, block: &Block) -> Range<usize> {
        let last_query = self.numbers.queries - block.queries.end;
        let first_query = self.numbers.queries - 1 - block.queries.start;
        let first = self.rows.by_diagonal()[block.keys.start + last_query] as usize;
        let last = self.rows.by_diagonal()[block.keys.end - 1 + first_query] as usize;
        first.min(last)..first.max(last) + 1
    }

    fn is_shared(&self) -> bool {
        self.dims()[1] == 1
    }

    /// Multiplies `[B, H, n, D]` with a range of rows: `[B, H, n, rows]`.
    pub fn products(&self, x: &CubeTensor, rows: &Range<usize>) -> SpacedRows {
        let table = CubeBackend::float_swap_dims(part(&self.table, rows.clone()), 2, 3);
        let x = if self.is_shared() { flat(x) } else { x.clone() };
        spaced_rows(multiply::product(x, table))
    }

    /// Multiplies `[B, H, n, rows]` with these rows: `[B, H, n, D]`.
    pub fn spread(&self, x: &CubeTensor, rows: &Range<usize>) -> CubeTensor {
        let table = part(&self.table, rows.clone());
        if !self.is_shared() {
            return multiply::product(x.clone(), table);
        }
        let [batch, heads, each, _] = x.shape().dims();
        let width = self.dims()[3];
        let product = multiply::product(flat(x), table);
        reshaped(product, [batch, heads, each, width])
    }

    /// Returns the gradient of these rows, given that of their products, `[B, H, n, rows]`, with `x`, `[B, H, n, D]`.
    pub fn gradient(&self, d: &CubeTensor, x: &CubeTensor) -> CubeTensor {
        let transposed = |d| CubeBackend::float_swap_dims(d, 2, 3);
        if self.is_shared() {
            return multiply::product(transposed(flat(d)), flat(x));
        }
        let each = multiply::product(transposed(d.clone()), x.clone());
        let [batch, heads, rows, width] = each.shape().dims();
        let by_row = Shape::from([batch, heads * rows * width]);
        let sum = columns::sum(CubeBackend::float_reshape(each, by_row));
        reshaped(sum, [1, heads, rows, width])
    }
}

/// Reshapes all vectors of a tensor of four dimensions to rows of one matrix.
fn flat(x: &CubeTensor) -> CubeTensor {
    let [batch, heads, each, width] = x.shape().dims();
    reshaped(x.clone(), [1, 1, batch * heads * each, width])
}

fn reshaped(x: CubeTensor, dims: [usize; 4]) -> CubeTensor {
    CubeBackend::float_reshape(x, Shape::from(dims))
}

/// The most recently requested device data of tables, with the row mapping and row count they are for.
static CACHE: Mutex<Vec<(DistanceRows, usize, CubeTensor)>> = Mutex::new(Vec::new());

/// Maximum number of cached entries.
const MAX_CACHED: usize = 12;

/// Returns the data of [`Numbers`] on the device, from the cache if possible.
fn cached(rows: &DistanceRows, count: usize, device: &CubeDevice) -> CubeTensor {
    let mut known = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |(own, of, numbers): &(DistanceRows, usize, CubeTensor)| {
        *of == count && numbers.device == *device && own == rows
    };
    let found = match known.iter().position(same) {
        Some(at) => known.remove(at),
        None => {
            let numbers = upload_integers(numbers_of(rows.by_diagonal(), count), device);
            (rows.clone(), count, numbers)
        }
    };
    let numbers = found.2.clone();
    if known.len() == MAX_CACHED {
        known.remove(0);
    }
    known.push(found);
    numbers
}

/// Returns the row of each diagonal, then for each row its first diagonal and the one after its last.
fn numbers_of(by_diagonal: &[u32], count: usize) -> Vec<i32> {
    let mut ranges = vec![[0i32; 2]; count];
    for (diagonal, row) in by_diagonal.iter().enumerate() {
        let [first, end] = &mut ranges[*row as usize];
        if *end == 0 {
            *first = diagonal as i32;
        }
        *end = diagonal as i32 + 1;
    }
    let rows = by_diagonal.iter().map(|row| *row as i32);
    rows.chain(ranges.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers_of;

    #[test]
    fn rows_know_their_diagonals() {
        let rising = numbers_of(&[0, 0, 1, 3, 3], 5);
        assert_eq!(rising[5..], [0, 2, 2, 3, 0, 0, 3, 5, 0, 0]);
        let falling = numbers_of(&[2, 1, 1, 0], 3);
        assert_eq!(falling[4..], [3, 4, 1, 3, 0, 1]);
    }
}
