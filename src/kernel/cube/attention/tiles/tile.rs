//! Loading of tiles from tensors, and which part of a tile a plane's queries see.

use cubecl::prelude::*;

use crate::kernel::cube::fragment::{COLUMNS, PLANE, Quad, SIDE, distance, own_row};
use crate::kernel::cube::scores::Form;
use crate::kernel::cube::strided::Strides;
use crate::kernel::cube::structure::{Place, Rules, Sizes, place_in};

/// Number of queries, and of keys, of a tile.
pub const TILE: u32 = 64;

/// Number of units of a cube: one plane for each 16 rows of a tile.
pub const UNITS: u32 = TILE / SIDE * PLANE;

/// Compile-time parameters of the tile kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Parameters of the scores.
    pub form: Form,
    /// Width of a head, a multiple of 16.
    pub width: u32,
}

impl Tiles {
    /// Returns the number of quads of a tile in shared memory.
    pub fn size(self) -> usize {
        (TILE * distance(self.width)) as usize
    }

    /// Returns the number of reads that a unit makes per tile.
    pub fn reads(self) -> u32 {
        TILE * self.width / (UNITS * READ)
    }
}

/// Number of elements that a unit reads at once.
pub const READ: u32 = 4;

/// The elements of one read.
pub type Read = Vector<f32, Const<4>>;

/// Allocates shared memory for a tile.
#[cube]
pub fn place_for(#[comptime] t: Tiles) -> Shared<[Quad]> {
    // Tensor cores load rows aligned to 16 bytes.
    Shared::<[Quad]>::new_aligned_slice(comptime!(t.size()), 16usize)
}

/// Loads a tile of a head in bfloat16, starting at query or key `first`; zeros past the last one. A unit issues all
/// of its reads before it waits for the first one.
#[cube]
pub fn load(
    from: &Tensor<Read>,
    to: &mut Shared<[Quad]>,
    strides: &Strides,
    row: u32,
    head: u32,
    first: u32,
    count: u32,
    #[comptime] t: Tiles,
) {
    let begin = row * strides.row + head * strides.head + first * strides.each;
    let mut values = Array::<Read>::new(comptime!(t.reads() as usize));
    #[unroll]
    for read in 0..comptime!(t.reads()) {
        let (line, column) = spot(read, t);
        let mut value = Read::cast_from(0.0f32);
        if first + line < count {
            value = from[((begin + line * strides.each + column) / READ) as usize];
        }
        values[read as usize] = value;
    }
    #[unroll]
    for read in 0..comptime!(t.reads()) {
        let (line, column) = spot(read, t);
        let place = line * comptime!(distance(t.width)) + column / READ;
        to[place as usize] = Quad::cast_from(values[read as usize]);
    }
}

/// Returns the line and column of a tile at which a unit reads. If the reads of a cube fill whole lines, a unit stays
/// in its column.
#[cube]
fn spot(#[comptime] read: u32, #[comptime] t: Tiles) -> (u32, u32) {
    let own = UNIT_POS * READ;
    if comptime!(UNITS * READ % t.width == 0) {
        let down = comptime!(read * (UNITS * READ / t.width));
        (own / t.width + down, own % t.width)
    } else {
        let at = own + comptime!(read * UNITS * READ);
        (at / t.width, at % t.width)
    }
}

/// log₂ e, by which [`power`] scales.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// Returns `exp(x - base)`, where `base` is given multiplied by [`LOG2_E`]: one product and one GPU instruction,
/// whose error is far below the precision of bfloat16 weights.
#[cube]
pub fn power(x: f32, base: f32) -> f32 {
    let exponent = x * LOG2_E - base;
    let power: f32;
    gpu_asm!("ex2.approx.ftz.f32 {y}, {x};", y = out(_) power, x = in(_) exponent, options(pure, nomem));
    power
}

/// A cube's tile of queries of a head.
#[derive(CubeType)]
pub struct QueryTile {
    /// Index of the row in the batch.
    pub row: u32,
    /// Query head.
    pub head: u32,
    /// The upper query of this unit; it may be past the last one.
    pub own: u32,
    last: u32,
    /// The first key that any of them sees, rounded down to the start of its tile.
    pub begin: u32,
    /// The key after the last one that any of them sees.
    pub end: u32,
    /// The first and the last query of this plane.
    pub plane: Sequence<Place>,
}

/// Returns the number of tiles of a head's queries.
#[cube]
pub fn tiles_of(sizes: &Sizes) -> u32 {
    (sizes.queries + TILE - 1) / TILE
}

/// Returns the tile of this cube. With a causal mask the last tile of a head sees the most keys, so it goes first.
#[cube]
pub fn query_tile(structure: &[i32], sizes: &Sizes, #[comptime] rules: Rules) -> QueryTile {
    let tiles = tiles_of(sizes);
    let number = CUBE_POS as u32;
    let (row, head) = (number / tiles / sizes.heads, number / tiles % sizes.heads);
    let first = (tiles - 1 - number % tiles) * TILE;
    let last = min(first + TILE, sizes.queries) - 1;
    let planes_first = min(first + UNIT_POS / PLANE * SIDE, last);
    let planes_last = min(planes_first + comptime!(SIDE - 1), last);
    let mut plane = Sequence::new();
    plane.push(place_in(row, head, planes_first, structure, sizes, rules));
    plane.push(place_in(row, head, planes_last, structure, sizes, rules));
    QueryTile {
        row,
        head,
        own: first + own_row(),
        last,
        begin: place_in(row, head, first, structure, sizes, rules).start / TILE * TILE,
        end: place_in(row, head, last, structure, sizes, rules).end,
        plane,
    }
}

/// Returns the place of a query of this unit, the upper or the lower one; a query past the end gets the place of the
/// last one.
#[cube]
pub fn own_place(
    tile: &QueryTile,
    #[comptime] half: u32,
    structure: &[i32],
    sizes: &Sizes,
    #[comptime] rules: Rules,
) -> Place {
    let query = min(tile.own + comptime!(half * COLUMNS), tile.last);
    place_in(tile.row, tile.head, query, structure, sizes, rules)
}

/// Returns whether none of the queries from `first` to `last` sees a key in `from..to`, given that the start and end
/// of the visible keys never decrease from a query to the next.
#[cube]
pub fn sees_none(first: &Place, last: &Place, from: u32, to: u32) -> bool {
    last.end <= from || first.start >= to
}

/// Returns whether each of these queries sees all of these keys, as far as can be told without checking each key.
#[cube]
pub fn sees_all(first: &Place, last: &Place, from: u32, to: u32, #[comptime] rules: Rules) -> bool {
    let mut all = false;
    if comptime!(rules.are_ranges()) {
        all = last.start <= from && first.end >= to && first.step == 1;
    }
    all
}
