//! Tiles on their way from and to tensors, and the places of a tile's queries.

use burn::tensor::bf16;
use cubecl::prelude::*;

use super::product::{FRAGMENT, PLANE, Sum, put};
use crate::kernel::cube::laid::{Strides, start_of};
use crate::kernel::cube::scores::Form;

/// Queries of a tile, and keys.
pub const TILE: u32 = 64;

/// Units of a cube: a plane for each 16 rows of a tile.
pub const UNITS: u32 = TILE / FRAGMENT * PLANE;

/// Columns of a tile that a unit works on, of one row: every two units share one.
pub const OWN: u32 = TILE * TILE / UNITS;

/// Distance between the rows of a tile of scores.
pub const SCORES: u32 = TILE + 4;

/// The same of a tile of weights.
pub const WEIGHTS: u32 = TILE + 8;

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// That of scores.
    pub form: Form,
    /// Width of a head, a multiple of 16.
    pub width: u32,
}

impl Tiles {
    /// Distance between rows of queries, keys and values.
    pub fn distance(self) -> u32 {
        self.width + 8
    }

    /// Numbers of a tile of them.
    pub fn size(self) -> usize {
        (TILE * self.distance()) as usize
    }

    /// How often a unit reads for a tile of them.
    pub fn reads(self) -> u32 {
        TILE * self.width / (UNITS * READ)
    }

    /// Distance between the rows of a tile that takes scores, or results.
    pub fn results(self) -> u32 {
        SCORES.max(self.width + 4)
    }
}

/// How many numbers a unit reads at once.
pub const READ: u32 = 4;

/// The numbers of one read.
pub type Read = Vector<f32, Const<4>>;

/// A tile of a head from number `first` on, in bfloat16; zeros behind the last. All reads of a unit are under way before it waits for
/// the first one.
#[cube]
pub fn load(
    from: &Tensor<Read>,
    to: &mut Shared<[bf16]>,
    strides: &Strides,
    row: u32,
    head: u32,
    first: u32,
    count: u32,
    #[comptime] t: Tiles,
) {
    let begin = row * strides.row + head * strides.head;
    let mut values = Array::<Read>::new(comptime!(t.reads() as usize));
    #[unroll]
    for read in 0..comptime!(t.reads()) {
        let at = (read * UNITS + UNIT_POS) * READ;
        let each = first + at / t.width;
        let mut value = Read::cast_from(0.0f32);
        if each < count {
            value = from[((begin + each * strides.each + at % t.width) / READ) as usize];
        }
        values[read as usize] = value;
    }
    #[unroll]
    for read in 0..comptime!(t.reads()) {
        let at = (read * UNITS + UNIT_POS) * READ;
        let place = at / t.width * comptime!(t.distance()) + at % t.width;
        let value = values[read as usize];
        #[unroll]
        for i in 0..comptime!(READ as usize) {
            to[place as usize + i] = bf16::cast_from(value.extract(i));
        }
    }
}

/// Writes a tile of a head's gradients, `[B, H, n, D]`, from number `first` on.
#[cube]
pub fn write(
    sum: &Sum,
    tile: &mut Shared<[f32]>,
    out: &mut Tensor<f32>,
    strides: &Strides,
    row: u32,
    head: u32,
    first: u32,
    count: u32,
    #[comptime] t: Tiles,
) {
    put(sum, tile, t.width, comptime!(t.results()));
    sync_cube();
    let mut at = UNIT_POS;
    while at < comptime!(TILE * t.width) {
        let each = at / t.width;
        let column = at % t.width;
        if first + each < count {
            let to = start_of(strides, row, head, first + each) + column;
            out[to as usize] = tile[(each * comptime!(t.results()) + column) as usize];
        }
        at += UNITS;
    }
    sync_cube();
}

/// Where block `number` of the columns that this unit works on stands among its blocks. Units of a plane begin with different ones, so
/// that those whose rows begin in one bank of shared memory read from others.
#[cube]
pub fn own_block(#[comptime] number: u32) -> u32 {
    (number + UNIT_POS / 16 % 2 + UNIT_POS % 2 * 2) % comptime!(OWN / 4)
}

/// Column `number` of a block of those that this unit works on: the four that have the words of one block of dropout.
#[cube]
pub fn own_column(block: u32, #[comptime] number: u32) -> u32 {
    UNIT_POS % 2 * 8 + block + comptime!(16 * number)
}

/// What both units of a row hold of a sum, or the larger of the two; `shared` has a place a unit.
#[cube]
pub fn of_both(value: f32, shared: &mut Shared<[f32]>, #[comptime] largest: bool) -> f32 {
    shared[UNIT_POS as usize] = value;
    sync_cube();
    let other = shared[(UNIT_POS ^ 1) as usize];
    sync_cube();
    let mut both = value + other;
    if comptime!(largest) {
        both = max(value, other);
    }
    both
}
