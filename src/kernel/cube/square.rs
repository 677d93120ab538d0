//! Products of 32 × 32 squares in shared memory, by cubes of [`UNITS`] units; each unit holds 16 numbers of a product
//! in registers. Elements past the end of a matrix count as zero.

use cubecl::prelude::*;

/// Number of rows and columns of a square.
pub const SIDE: u32 = 32;

/// Number of units of a cube.
pub const UNITS: usize = 64;

/// Distance between rows in shared memory: one more than their length, so that columns are read as fast as rows.
pub const APART: u32 = SIDE + 1;

/// Size of a square in shared memory.
pub const SQUARE: usize = (SIDE * APART) as usize;

/// Number of rows, and of columns, of a product that a unit holds.
pub const OWN: u32 = 4;

/// Distance between a unit's rows, and between its columns.
const STEP: u32 = SIDE / OWN;

/// Number of elements that a unit loads into shared memory.
const SHARE: u32 = SIDE * SIDE / UNITS as u32;

/// A part of a matrix, at most one square.
#[derive(CubeType, Clone, Copy)]
pub struct Part {
    /// Offset of its first element.
    pub first: u32,
    /// Distance between rows.
    pub distance: u32,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
}

/// Returns row `i` of those this unit holds.
#[cube]
pub fn own_row(#[comptime] i: u32) -> u32 {
    UNIT_POS / STEP + comptime!(i * STEP)
}

/// Returns column `j` of those this unit holds.
#[cube]
pub fn own_column(#[comptime] j: u32) -> u32 {
    UNIT_POS % STEP + comptime!(j * STEP)
}

/// Returns the index, below [`STEP`], of this unit's columns within its rows.
#[cube]
pub fn own_share() -> u32 {
    UNIT_POS % STEP
}

/// Sums the shares of the units of a row, stored in the columns of a square from `first` on.
#[cube]
pub fn shares(square: &Shared<[f32]>, row: u32, #[comptime] first: u32) -> f32 {
    let mut sum = 0.0f32;
    for k in 0..STEP {
        sum += square[(row * APART + first + k) as usize];
    }
    sum
}

/// Returns the index of an element in shared memory.
#[cube]
pub fn at(row: u32, column: u32) -> usize {
    (row * APART + column) as usize
}

/// Returns row and column of element `i` of those this unit loads into shared memory; adjacent units load adjacent
/// columns.
#[cube]
fn brought(i: u32) -> (u32, u32) {
    let number = i * comptime!(UNITS as u32) + UNIT_POS;
    (number / SIDE, number % SIDE)
}

/// Reads an element of a part of a matrix; zero outside it.
#[cube]
pub fn value_at(from: &[f32], part: &Part, row: u32, column: u32) -> f32 {
    let mut value = 0.0f32;
    if row < part.rows && column < part.columns {
        value = from[(part.first + row * part.distance + column) as usize];
    }
    value
}

/// Loads a part of a matrix into shared memory.
#[cube]
pub fn bring(to: &mut Shared<[f32]>, from: &[f32], part: &Part) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        to[at(row, column)] = value_at(from, part, row, column);
    }
}

/// Multiplies the rows of a square by their factors; each unit handles the elements that it loaded.
#[cube]
pub fn scale(to: &mut Shared<[f32]>, factors: &Shared<[f32]>) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        let value = to[at(row, column)];
        to[at(row, column)] = value * factors[row as usize];
    }
}

/// Multiplies a square elementwise by a part of a matrix.
#[cube]
pub fn weigh(square: &mut Shared<[f32]>, from: &[f32], part: &Part) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        let value = square[at(row, column)];
        square[at(row, column)] = value * value_at(from, part, row, column);
    }
}

/// Stores a product in shared memory.
#[cube]
pub fn bring_own(to: &mut Shared<[f32]>, own: &Array<f32>) {
    #[unroll]
    for i in 0..OWN {
        #[unroll]
        for j in 0..OWN {
            to[at(own_row(i), own_column(j))] = own[(i * OWN + j) as usize];
        }
    }
}

/// Stores the elementwise product of a square and a part of a matrix in shared memory.
#[cube]
pub fn bring_weighed(to: &mut Shared<[f32]>, square: &Shared<[f32]>, from: &[f32], part: &Part) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        let value = value_at(from, part, row, column);
        to[at(row, column)] = value * square[at(row, column)];
    }
}

/// Returns the sum of the elementwise product of a square and a part of a matrix, over the elements this unit loaded.
#[cube]
pub fn meeting(square: &Shared<[f32]>, from: &[f32], part: &Part) -> f32 {
    let mut sum = 0.0f32;
    for i in 0..SHARE {
        let (row, column) = brought(i);
        sum += square[at(row, column)] * value_at(from, part, row, column);
    }
    sum
}

/// Adds a part of a matrix to the elements that this unit will store in shared memory.
#[cube]
pub fn gather(own: &mut Array<f32>, from: &[f32], part: &Part) {
    #[unroll]
    for i in 0..SHARE {
        let (row, column) = brought(i);
        own[i as usize] += value_at(from, part, row, column);
    }
}

/// Stores the elements that [`gather`] has accumulated.
#[cube]
pub fn bring_gathered(to: &mut Shared<[f32]>, own: &Array<f32>) {
    #[unroll]
    for i in 0..SHARE {
        let (row, column) = brought(i);
        to[at(row, column)] = own[i as usize];
    }
}

/// Returns a unit's 16 sums, zeroed.
#[cube]
pub fn zeros() -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!((OWN * OWN) as usize));
    #[unroll]
    for i in 0..comptime!((OWN * OWN) as usize) {
        sums[i] = 0.0f32;
    }
    sums
}

/// Reads an element of an operand, which is stored transposed if `turned`.
#[cube]
fn operand(square: &Shared<[f32]>, row: u32, column: u32, #[comptime] turned: bool) -> f32 {
    let mut place = at(row, column);
    if comptime!(turned) {
        place = at(column, row);
    }
    square[place]
}

/// Adds the product of two squares, each of which may be transposed.
#[cube]
pub fn add_product(
    sums: &mut Array<f32>,
    left: &Shared<[f32]>,
    right: &Shared<[f32]>,
    #[comptime] left_turned: bool,
    #[comptime] right_turned: bool,
) {
    for k in 0..SIDE {
        let mut rows = Array::<f32>::new(comptime!(OWN as usize));
        let mut columns = Array::<f32>::new(comptime!(OWN as usize));
        #[unroll]
        for i in 0..OWN {
            rows[i as usize] = operand(left, own_row(i), k, left_turned);
            columns[i as usize] = operand(right, k, own_column(i), right_turned);
        }
        #[unroll]
        for i in 0..OWN {
            #[unroll]
            for j in 0..OWN {
                sums[(i * OWN + j) as usize] += rows[i as usize] * columns[j as usize];
            }
        }
    }
}
