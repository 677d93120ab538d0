//! Products of a few rows with contiguous columns: every element is the dot product of two contiguous vectors.
//!
//! Four rows and four columns at a time keep sixteen running sums in registers, so that an element that was read is
//! used four times; it is two columns on machines with only sixteen registers. The terms of an element are added in
//! the same order whatever rows and columns are computed with it.

use pulp::{Simd, WithSimd};

use super::{Part, Product};
use crate::kernel::flex::simd::{fetch, run};

/// Number of rows of a tile, and maximum number of columns.
const SIDE: usize = 4;

/// Number of elements that a single row prefetches ahead of its arithmetic; with fewer, memory answers too late.
const PREFETCH_DISTANCE: usize = 768;

/// Computes a part of a product whose left rows and right columns are contiguous.
pub(super) fn make(product: &Product, part: &Part) {
    run(Dots { product, part });
}

struct Dots<'a> {
    product: &'a Product<'a>,
    part: &'a Part,
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.columns::<S, SIDE>(simd);
        } else {
            self.columns::<S, 2>(simd);
        }
    }
}

impl<'a> Dots<'a> {
    /// Processes all columns, `C` at a time.
    #[inline(always)]
    fn columns<S: Simd, const C: usize>(&self, simd: S)
    where
        Sums: Tile<SIDE, C> + Tile<1, C>,
    {
        let columns = &self.part.columns;
        let mut column = columns.start;
        while column + C <= columns.end {
            self.rows::<S, C>(simd, column);
            column += C;
        }
        while column < columns.end {
            self.rows::<S, 1>(simd, column);
            column += 1;
        }
    }

    /// Processes all rows for `C` columns.
    #[inline(always)]
    fn rows<S: Simd, const C: usize>(&self, simd: S, column: usize)
    where
        Sums: Tile<SIDE, C> + Tile<1, C>,
    {
        let rows = &self.part.rows;
        let mut row = rows.start;
        while row + SIDE <= rows.end {
            self.tile::<S, SIDE, C>(simd, row, column);
            row += SIDE;
        }
        while row < rows.end {
            self.tile::<S, 1, C>(simd, row, column);
            row += 1;
        }
    }

    /// Computes `R` rows by `C` columns.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const C: usize>(&self, simd: S, row: usize, column: usize)
    where
        Sums: Tile<R, C>,
    {
        let rows = std::array::from_fn(|i| self.row(row + i));
        let columns = std::array::from_fn(|i| self.column(column + i));
        let sums = Sums::of(simd, rows, columns, self.next::<R, C>(row, column + C));
        for (i, sums) in sums.into_iter().enumerate() {
            self.product.put(row + i, column, sums);
        }
    }

    /// Returns row `i` of the left operand.
    fn row(&self, i: usize) -> &'a [f32] {
        let left = self.product.left;
        &left.data[i * left.strides[0]..][..left.shape[1]]
    }

    /// Returns column `i` of the right operand.
    fn column(&self, i: usize) -> &'a [f32] {
        let right = self.product.right;
        &right.data[i * right.strides[1]..][..right.shape[0]]
    }

    /// Returns the elements to prefetch while a tile is computed, among the columns from `column` on. A single row
    /// prefetches all columns of the tile that is at least [`AHEAD`] elements away. With more rows, the n-th tile
    /// prefetches the n-th column of the third tile to come, since what the last of them prefetches would come too
    /// late for the next one.
    fn next<const R: usize, const C: usize>(&self, row: usize, column: usize) -> &'a [f32] {
        let right = self.product.right;
        let (tile, end) = ((row - self.part.rows.start) / SIDE, self.part.columns.end);
        let (first, count) = match R {
            1 if row == self.part.rows.start => {
                (column + PREFETCH_DISTANCE / right.strides[1].max(1), C)
            }
            SIDE if tile < C => (column + 2 * C + tile, 1),
            _ => return &[],
        };
        let [from, to] = [first, first + count]
            .map(|column| (column.min(end) * right.strides[1]).min(right.data.len()));
        &right.data[from..to]
    }
}

/// Returns the dot products of `R` rows with `C` columns, all of one length, and prefetches `next` meanwhile.
trait Tile<const R: usize, const C: usize> {
    fn of<S: Simd>(s: S, rows: [&[f32]; R], columns: [&[f32]; C], next: &[f32]) -> [[f32; C]; R];
}

struct Sums;

/// Written out, since sums indexed by a variable would not stay in registers.
macro_rules! tile {
    ($rows:literal by $columns:literal, fetching $lines:literal:
        [$($column:literal)*] $($row:literal [$($at:literal $sum:ident)*])*) => {
        impl Tile<$rows, $columns> for Sums {
            #[inline(always)]
            fn of<S: Simd>(
                s: S,
                rows: [&[f32]; $rows],
                columns: [&[f32]; $columns],
                next: &[f32],
            ) -> [[f32; $columns]; $rows] {
                let rows = [$(S::as_simd_f32s(rows[$row])),*];
                let columns = [$(S::as_simd_f32s(columns[$column])),*];
                let len = rows[0].0.len();
                let (down, across) = ([$(&rows[$row].0[..len]),*], [$(&columns[$column].0[..len]),*]);
                $($(let mut $sum = s.splat_f32s(0.0);)*)*
                for i in 0..len {
                    for line in 0..$lines {
                        fetch(next, ($lines * i + line) * S::F32_LANES);
                    }
                    let numbers = [$(across[$column][i]),*];
                    $(let number = down[$row][i];
                    $($sum = s.mul_add_e_f32s(number, numbers[$at], $sum);)*)*
                }
                if !rows[0].1.is_empty() {
                    let numbers = [$(s.partial_load_f32s(columns[$column].1)),*];
                    $(let number = s.partial_load_f32s(rows[$row].1);
                    $($sum = s.mul_add_e_f32s(number, numbers[$at], $sum);)*)*
                }
                let sums = totals(s, [$($($sum),*),*]);
                std::array::from_fn(|row| std::array::from_fn(|column| sums[row * $columns + column]))
            }
        }
    };
}

tile!(4 by 4, fetching 1: [0 1 2 3] 0 [0 c00 1 c01 2 c02 3 c03] 1 [0 c10 1 c11 2 c12 3 c13]
    2 [0 c20 1 c21 2 c22 3 c23] 3 [0 c30 1 c31 2 c32 3 c33]);
tile!(4 by 2, fetching 1: [0 1] 0 [0 c00 1 c01] 1 [0 c10 1 c11] 2 [0 c20 1 c21] 3 [0 c30 1 c31]);
tile!(4 by 1, fetching 1: [0] 0 [0 c0] 1 [0 c1] 2 [0 c2] 3 [0 c3]);
tile!(1 by 4, fetching 4: [0 1 2 3] 0 [0 c0 1 c1 2 c2 3 c3]);
tile!(1 by 2, fetching 2: [0 1] 0 [0 c0 1 c1]);
tile!(1 by 1, fetching 1: [0] 0 [0 c0]);

/// Sums the lanes of each of `N` registers, a power of two. Halves are added, then quarters, down to single lanes. As
/// long as two registers are left, one of them fills the lanes that the other's halves leave free.
#[inline(always)]
fn totals<S: Simd, const N: usize>(s: S, mut sums: [S::f32s; N]) -> [f32; N] {
    const { assert!(N.is_power_of_two()) };
    let lanes = s.partial_load_u32s(&LANES[..S::F32_LANES]);
    let (mut left, mut half) = (N, S::F32_LANES / 2);
    while half > 0 {
        let bit = s.and_u32s(lanes, s.splat_u32s(half as u32));
        let lower = s.equal_u32s(bit, s.splat_u32s(0));
        if left > 1 {
            left /= 2;
            for i in 0..left {
                let [even, odd] = [sums[2 * i], sums[2 * i + 1]];
                let even = s.add_f32s(even, s.rotate_left_f32s(even, half));
                let odd = s.add_f32s(odd, s.rotate_right_f32s(odd, half));
                sums[i] = s.select_f32s(lower, even, odd);
            }
        } else {
            sums[0] = s.add_f32s(sums[0], s.rotate_left_f32s(sums[0], half));
        }
        half /= 2;
    }
    let mut numbers = [[0.0; MAX_LANES]; N];
    for (numbers, sum) in numbers.iter_mut().zip(&sums[..left]) {
        s.partial_store_f32s(&mut numbers[..S::F32_LANES], *sum);
    }
    // The lowest bit of a register's index chose the half, the next one the quarter.
    let halvings = (N / left).trailing_zeros();
    std::array::from_fn(|i| {
        let place = |bit| (i >> bit & 1) * (S::F32_LANES >> (bit + 1));
        numbers[i >> halvings][(0..halvings).map(place).sum::<usize>()]
    })
}

/// Maximum number of lanes of a register.
const MAX_LANES: usize = 16;

/// The lane indices.
const LANES: [u32; MAX_LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
