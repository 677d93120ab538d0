//! Tiles on their way from tensors, and how much of them a plane sees.

use cubecl::prelude::*;

use crate::kernel::cube::fragment::{COLUMNS, PLANE, Quad, SIDE, distance, own_row};
use crate::kernel::cube::laid::Strides;
use crate::kernel::cube::scores::Form;
use crate::kernel::cube::structure::{Place, Rules, Sizes, place_in};

/// Queries of a tile, and keys.
pub const TILE: u32 = 64;

/// Units of a cube: a plane for each 16 rows of a tile.
pub const UNITS: u32 = TILE / SIDE * PLANE;

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// That of scores.
    pub form: Form,
    /// Width of a head, a multiple of 16.
    pub width: u32,
}

impl Tiles {
    /// Quads of a tile in shared memory.
    pub fn size(self) -> usize {
        (TILE * distance(self.width)) as usize
    }

    /// How often a unit reads for a tile.
    pub fn reads(self) -> u32 {
        TILE * self.width / (UNITS * READ)
    }
}

/// How many numbers a unit reads at once.
pub const READ: u32 = 4;

/// The numbers of one read.
pub type Read = Vector<f32, Const<4>>;

/// Shared memory for a tile.
#[cube]
pub fn place_for(#[comptime] t: Tiles) -> Shared<[Quad]> {
    // Tensor cores take rows of 16 bytes.
    Shared::<[Quad]>::new_aligned_slice(comptime!(t.size()), 16usize)
}

/// A tile of a head from number `first` on, in bfloat16; zeros behind the last. All reads of a unit are under way before it waits for
/// the first one.
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

/// Line and column of a tile at which a unit reads: where reads of a cube fill whole lines, a unit stays in its column.
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

/// The logarithm by which [`power`] counts, of e to the base 2.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// `exp(x - base)` where `base` comes times [`LOG2_E`]: a product and one instruction of the GPU, whose error is far below what weights
/// in bfloat16 show.
#[cube]
pub fn power(x: f32, base: f32) -> f32 {
    let exponent = x * LOG2_E - base;
    let power: f32;
    gpu_asm!("ex2.approx.ftz.f32 {y}, {x};", y = out(_) power, x = in(_) exponent, options(pure, nomem));
    power
}

/// A cube's tile of queries of a row's head.
#[derive(CubeType)]
pub struct QueryTile {
    /// Row of the batch.
    pub row: u32,
    /// Query head.
    pub head: u32,
    /// The upper query of this unit; it may not be there.
    pub own: u32,
    last: u32,
    /// The first key that one of them sees, down to the begin of its tile.
    pub begin: u32,
    /// The key behind the last.
    pub end: u32,
    /// The first query of this plane, and the last one.
    pub plane: Sequence<Place>,
}

/// How many tiles the queries of a head are.
#[cube]
pub fn tiles_of(sizes: &Sizes) -> u32 {
    (sizes.queries + TILE - 1) / TILE
}

/// The tile of this cube. Under causality the last tile of a head sees the most keys: it goes first.
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

/// Where a query of this unit stands, the upper or the lower one: one that is not there stands as the last.
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

/// Whether none of the queries from one to another sees a key of those from `from` to `to`: neither where the first query's
/// keys begin nor where they end is ever behind those of the next one.
#[cube]
pub fn sees_none(first: &Place, last: &Place, from: u32, to: u32) -> bool {
    last.end <= from || first.start >= to
}

/// Whether each of these queries sees all of these keys, as far as it is known without asking for each of them.
#[cube]
pub fn sees_all(first: &Place, last: &Place, from: u32, to: u32, #[comptime] rules: Rules) -> bool {
    let mut all = false;
    if comptime!(rules.are_ranges()) {
        all = last.start <= from && first.end >= to && first.step == 1;
    }
    all
}
