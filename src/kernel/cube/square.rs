//! Products of squares of 32 by 32 numbers that lie in shared memory, by cubes of [`UNITS`] units: each has 16 numbers of a product in
//! its registers. What is behind the end of a matrix counts as zero.

use cubecl::prelude::*;

/// Rows and columns of a square.
pub const SIDE: u32 = 32;

/// Units of a cube.
pub const UNITS: usize = 64;

/// How far its rows lie apart in shared memory: one number more than they have, so that columns are read as fast as rows.
pub const APART: u32 = SIDE + 1;

/// Numbers of a square in shared memory.
pub const SQUARE: usize = (SIDE * APART) as usize;

/// Rows, and columns, of a product that a unit has.
pub const OWN: u32 = 4;

/// How far these lie apart.
const STEP: u32 = SIDE / OWN;

/// Numbers that a unit brings into shared memory.
const SHARE: u32 = SIDE * SIDE / UNITS as u32;

/// A part of a matrix, of one square at most.
#[derive(CubeType, Clone, Copy)]
pub struct Part {
    /// Where it begins.
    pub first: u32,
    /// How far rows lie apart.
    pub distance: u32,
    /// Its rows.
    pub rows: u32,
    /// Its columns.
    pub columns: u32,
}

/// Row `i` of those that this unit has.
#[cube]
pub fn own_row(#[comptime] i: u32) -> u32 {
    UNIT_POS / STEP + comptime!(i * STEP)
}

/// Column `j` of those that this unit has.
#[cube]
pub fn own_column(#[comptime] j: u32) -> u32 {
    UNIT_POS % STEP + comptime!(j * STEP)
}

/// Which of the columns of its rows this unit has, of [`STEP`].
#[cube]
pub fn own_share() -> u32 {
    UNIT_POS % STEP
}

/// The sum of what the units of a row have, each in its column of a square from `first` on.
#[cube]
pub fn shares(square: &Shared<[f32]>, row: u32, #[comptime] first: u32) -> f32 {
    let mut sum = 0.0f32;
    for k in 0..STEP {
        sum += square[(row * APART + first + k) as usize];
    }
    sum
}

/// Where a number lies in shared memory.
#[cube]
pub fn at(row: u32, column: u32) -> usize {
    (row * APART + column) as usize
}

/// Row and column of number `i` of those that this unit brings into shared memory; columns lie side by side.
#[cube]
fn brought(i: u32) -> (u32, u32) {
    let number = i * comptime!(UNITS as u32) + UNIT_POS;
    (number / SIDE, number % SIDE)
}

/// A number of a part of a matrix.
#[cube]
pub fn value_at(from: &[f32], part: &Part, row: u32, column: u32) -> f32 {
    let mut value = 0.0f32;
    if row < part.rows && column < part.columns {
        value = from[(part.first + row * part.distance + column) as usize];
    }
    value
}

/// Brings a part of a matrix into shared memory.
#[cube]
pub fn bring(to: &mut Shared<[f32]>, from: &[f32], part: &Part) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        to[at(row, column)] = value_at(from, part, row, column);
    }
}

/// Multiplies the rows of a square with their factors: each unit those that it brought.
#[cube]
pub fn scale(to: &mut Shared<[f32]>, factors: &Shared<[f32]>) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        let value = to[at(row, column)];
        to[at(row, column)] = value * factors[row as usize];
    }
}

/// Multiplies the numbers of a square with those of a part of a matrix.
#[cube]
pub fn weigh(square: &mut Shared<[f32]>, from: &[f32], part: &Part) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        let value = square[at(row, column)];
        square[at(row, column)] = value * value_at(from, part, row, column);
    }
}

/// Brings a product into shared memory.
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

/// Brings the products of a square's numbers with those of a part of a matrix into shared memory.
#[cube]
pub fn bring_weighed(to: &mut Shared<[f32]>, square: &Shared<[f32]>, from: &[f32], part: &Part) {
    for i in 0..SHARE {
        let (row, column) = brought(i);
        let value = value_at(from, part, row, column);
        to[at(row, column)] = value * square[at(row, column)];
    }
}

/// The sum of the products of a square's numbers with those of a part of a matrix, over those that this unit brought.
#[cube]
pub fn meeting(square: &Shared<[f32]>, from: &[f32], part: &Part) -> f32 {
    let mut sum = 0.0f32;
    for i in 0..SHARE {
        let (row, column) = brought(i);
        sum += square[at(row, column)] * value_at(from, part, row, column);
    }
    sum
}

/// Adds a part of a matrix to what this unit is to bring into shared memory.
#[cube]
pub fn gather(own: &mut Array<f32>, from: &[f32], part: &Part) {
    #[unroll]
    for i in 0..SHARE {
        let (row, column) = brought(i);
        own[i as usize] += value_at(from, part, row, column);
    }
}

/// Brings what [`gather`] has added.
#[cube]
pub fn bring_gathered(to: &mut Shared<[f32]>, own: &Array<f32>) {
    #[unroll]
    for i in 0..SHARE {
        let (row, column) = brought(i);
        to[at(row, column)] = own[i as usize];
    }
}

/// Zeros, of which a unit has 16.
#[cube]
pub fn zeros() -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!((OWN * OWN) as usize));
    #[unroll]
    for i in 0..comptime!((OWN * OWN) as usize) {
        sums[i] = 0.0f32;
    }
    sums
}

/// A number of an operand, which lies in shared memory the other way round if it is `turned`.
#[cube]
fn operand(square: &Shared<[f32]>, row: u32, column: u32, #[comptime] turned: bool) -> f32 {
    let mut place = at(row, column);
    if comptime!(turned) {
        place = at(column, row);
    }
    square[place]
}

/// Adds the product of two squares, of which the left or the right one may be turned.
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
