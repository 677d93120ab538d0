//! The keys and values that a cube keeps while it goes through the queries.

use cubecl::prelude::*;

use super::tile::{TILE, Tiles};
use crate::kernel::cube::fragment::{
    COLUMNS, Pair, Quad, SIDE, Sums, add_step_by_rows, distance, keep, kept, registers_of, rows_of,
};
use crate::kernel::cube::strided::Strides;

/// Maximum width of a head whose keys and values fit in registers together with their gradients.
const IN_REGISTERS: u32 = 64;

/// A plane's 16 keys, or values: in registers or, for wide heads, in shared memory.
#[derive(CubeType)]
pub struct Held {
    registers: Array<Pair>,
    rows: Shared<[Pair]>,
}

/// Returns the number of pairs in shared memory that keys, or values, take.
pub fn pairs_held(width: u32) -> u32 {
    match width > IN_REGISTERS {
        true => 2 * TILE * distance(width),
        false => 4,
    }
}

/// Loads each plane's 16 keys, or values; `own` is the index of this unit's upper one.
#[cube]
pub fn held(
    from: &Tensor<Sums>,
    strides: &Strides,
    row: u32,
    head: u32,
    own: u32,
    count: u32,
    #[comptime] t: Tiles,
) -> Held {
    let registers = rows_of(from, strides, row, head, own, count, t.width);
    let mut rows =
        Shared::<[Pair]>::new_aligned_slice(comptime!(pairs_held(t.width) as usize), 16usize);
    if comptime!(t.width > IN_REGISTERS) {
        keep(&registers, &mut rows, t.width);
    }
    Held { registers, rows }
}

/// Adds the product of keys, or values, with `count` groups of eight rows of a tile of queries, or of output
/// gradients.
#[cube]
pub fn add_held(
    sums: &mut Array<Sums>,
    own: &Held,
    tile: &Shared<[Quad]>,
    behind: u32,
    #[comptime] count: u32,
    #[comptime] t: Tiles,
) {
    #[unroll]
    for step in 0..comptime!(t.width / SIDE) {
        if comptime!(t.width > IN_REGISTERS) {
            let left = kept(&own.rows, step, t.width);
            add_step_by_rows(sums, &left, tile, behind, step, COLUMNS, count, t.width);
        } else {
            let left = registers_of(&own.registers, step);
            add_step_by_rows(sums, &left, tile, behind, step, COLUMNS, count, t.width);
        }
    }
}
