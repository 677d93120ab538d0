//! Tensor-core products whose results stay in registers (PTX ISA, `mma.m16n8k16`). A plane multiplies 16 rows of a
//! bfloat16 left operand with 8 columns of a right one over a depth of 16, and adds to 32-bit sums. Unit `u` of a
//! plane holds rows `u / 4` and `u / 4 + 8` of each tile of sums, in columns `u % 4 * 2` and the next one.

use burn::tensor::bf16;
use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::ir::{DeviceProperties, ElemType, FloatKind};
use cubecl::prelude::*;

use super::strided::Strides;

/// Number of units of a plane.
pub const PLANE: u32 = 32;

/// Number of rows of a product, and its depth.
pub const SIDE: u32 = 16;

/// Number of columns of a tile of sums.
pub const COLUMNS: u32 = 8;

/// Two adjacent elements of a row in bfloat16: one register of an operand.
pub type Pair = Vector<bf16, Const<2>>;

/// Two adjacent elements of a row of sums.
pub type Sums = Vector<f32, Const<2>>;

/// Four adjacent elements of a row in shared memory.
pub type Quad = Vector<bf16, Const<4>>;

/// Returns whether a device has these products, planes of 32 units, and loads of operands from shared memory
/// (`ldmatrix`).
pub fn has_products(properties: &DeviceProperties) -> bool {
    let half = ElemType::Float(FloatKind::BF16);
    let single = ElemType::Float(FloatKind::F32);
    let matmul = &properties.features.matmul;
    let products = matmul.mma.iter().any(|config| {
        [config.a_type, config.b_type, config.cd_type] == [half, half, single]
            && [config.m, config.n, config.k] == [SIDE, COLUMNS, SIDE]
    });
    let hardware = &properties.hardware;
    let planes = [hardware.plane_size_min, hardware.plane_size_max] == [PLANE; 2];
    products && planes && matmul.ldmatrix.contains(&half)
}

/// Returns the upper row that this unit holds within the cube; the lower one is 8 further down.
#[cube]
pub fn own_row() -> u32 {
    UNIT_POS / PLANE * SIDE + UNIT_POS_PLANE / 4
}

/// Returns the first of the two columns of a tile that this unit holds.
#[cube]
pub fn own_column() -> u32 {
    UNIT_POS_PLANE % 4 * 2
}

/// Returns zeroed tiles of sums, two vectors each: one for the upper row and one for the lower row.
#[cube]
pub fn zeros(#[comptime] tiles: u32) -> Array<Sums> {
    let mut sums = Array::<Sums>::new(comptime!(2 * tiles as usize));
    #[unroll]
    for i in 0..comptime!(2 * tiles as usize) {
        sums[i] = Sums::cast_from(0.0f32);
    }
    sums
}

/// Adds a product to tile number `tile` of the sums.
#[cube]
pub fn add(
    sums: &mut Array<Sums>,
    #[comptime] tile: u32,
    left: &Array<Pair>,
    upper: Pair,
    lower: Pair,
) {
    let product = MmaDefinition::<bf16, bf16, f32>::new(16usize, 8usize, 16usize);
    let mut right = Array::<Pair>::new(2usize);
    right[0] = upper;
    right[1] = lower;
    let mut before = Array::<Sums>::new(2usize);
    before[0] = sums[comptime!(2 * tile as usize)];
    before[1] = sums[comptime!(2 * tile as usize + 1)];
    let after = product.execute(left, &right, &before);
    sums[comptime!(2 * tile as usize)] = after[0];
    sums[comptime!(2 * tile as usize + 1)] = after[1];
}

/// Adds `left · tileᵀ`: the product of the plane's rows with rows of a tile in shared memory. Those are `count`
/// groups of eight rows, `apart` rows from each other, starting at `row`.
#[cube]
pub fn add_by_rows(
    sums: &mut Array<Sums>,
    left: &Array<Pair>,
    tile: &Shared<[Quad]>,
    row: u32,
    #[comptime] apart: u32,
    #[comptime] count: u32,
    #[comptime] width: u32,
) {
    #[unroll]
    for step in 0..comptime!(width / SIDE) {
        let own = registers_of(left, step);
        add_step_by_rows(sums, &own, tile, row, step, apart, count, width);
    }
}

/// Adds step `step`, of depth 16, of [`add_by_rows`], given the left operand's registers of that step.
#[cube]
pub fn add_step_by_rows(
    sums: &mut Array<Sums>,
    left: &Array<Pair>,
    tile: &Shared<[Quad]>,
    row: u32,
    #[comptime] step: u32,
    #[comptime] apart: u32,
    #[comptime] count: u32,
    #[comptime] width: u32,
) {
    #[unroll]
    for two in 0..comptime!(count / 2) {
        let row = row + comptime!(2 * two * apart);
        let right = columns(tile, row, apart, comptime!(step * SIDE), false, width);
        add(sums, comptime!(2 * two), left, right[0], right[1]);
        add(sums, comptime!(2 * two + 1), left, right[2], right[3]);
    }
}

/// Adds the product of a left operand with 16 rows of a tile in shared memory: eight starting at `row` and eight
/// starting `apart` rows further down.
#[cube]
pub fn add_by_columns(
    sums: &mut Array<Sums>,
    left: &Array<Pair>,
    tile: &Shared<[Quad]>,
    row: u32,
    #[comptime] apart: u32,
    #[comptime] width: u32,
) {
    #[unroll]
    for two in 0..comptime!(width / SIDE) {
        let right = columns(tile, row, apart, comptime!(two * SIDE), true, width);
        add(sums, comptime!(2 * two), left, right[0], right[1]);
        add(sums, comptime!(2 * two + 1), left, right[2], right[3]);
    }
}

/// Loads two right operands of eight columns each from shared memory. Their columns are rows of the tile, or columns
/// of it if `turned`.
#[cube]
fn columns(
    tile: &Shared<[Quad]>,
    row: u32,
    #[comptime] apart: u32,
    #[comptime] column: u32,
    #[comptime] turned: bool,
    #[comptime] width: u32,
) -> Array<Pair> {
    let product = MmaDefinition::<bf16, bf16, f32>::new(16usize, 8usize, 16usize);
    // Unit `u` gives the address of row `u % 8` of matrix `u / 8` of four.
    let matrix = UNIT_POS_PLANE / 8;
    let mut below = matrix / 2;
    let mut beside = matrix % 2;
    if comptime!(turned) {
        below = matrix % 2;
        beside = matrix / 2;
    }
    let row = row + UNIT_POS_PLANE % 8 + below * apart;
    let at = row * comptime!(distance(width)) + comptime!(column / 4) + beside * 2;
    product.load_matrix::<Quad, Const<2>>(
        &tile[at as usize..(at + 2) as usize],
        MatrixIdent::B,
        4usize,
        turned,
    )
}

/// Returns the distance between rows of a tile in shared memory, in quads: eight numbers more than a row has, so that
/// rows begin in different banks.
pub fn distance(width: u32) -> u32 {
    (width + 8) / 4
}

/// Returns the registers of part `number` of a left operand that has several parts, of depth 16 or of 16 rows each.
#[cube]
pub fn registers_of(left: &Array<Pair>, #[comptime] number: u32) -> Array<Pair> {
    let mut own = Array::<Pair>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        own[i] = left[comptime!(4 * number as usize + i)];
    }
    own
}

/// Converts two tiles of sums to a left operand of depth 16: both are distributed over the units in the same way.
#[cube]
pub fn as_left(sums: &Array<Sums>, #[comptime] first: u32) -> Array<Pair> {
    let mut left = Array::<Pair>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        left[i] = Pair::cast_from(sums[comptime!(2 * first as usize + i)]);
    }
    left
}

/// Reads rows of a head from a tensor as a left operand. This unit's upper row is `first`; rows past the last one are
/// zeros.
#[cube]
pub fn rows_of(
    from: &Tensor<Sums>,
    strides: &Strides,
    row: u32,
    head: u32,
    first: u32,
    count: u32,
    #[comptime] width: u32,
) -> Array<Pair> {
    let mut left = Array::<Pair>::new(comptime!((width / SIDE * 4) as usize));
    let begin = row * strides.row + head * strides.head + own_column();
    #[unroll]
    for step in 0..comptime!(width / SIDE) {
        #[unroll]
        for i in 0..4u32 {
            let each = first + comptime!(i % 2 * COLUMNS);
            let column = comptime!(step * SIDE + i / 2 * COLUMNS);
            let mut value = Sums::cast_from(0.0f32);
            if each < count {
                value = from[((begin + each * strides.each + column) / 2) as usize];
            }
            left[comptime!((4 * step + i) as usize)] = Pair::cast_from(value);
        }
    }
    left
}

/// Writes tiles of sums as rows of a head, `[B, H, n, D]`, each row multiplied by a factor.
#[cube]
pub fn write(
    sums: &Array<Sums>,
    out: &mut Tensor<Sums>,
    strides: &Strides,
    factors: &Array<f32>,
    row: u32,
    head: u32,
    first: u32,
    count: u32,
    #[comptime] width: u32,
) {
    let begin = row * strides.row + head * strides.head + own_column();
    #[unroll]
    for half in 0..2u32 {
        let each = first + comptime!(half * COLUMNS);
        if each < count {
            #[unroll]
            for tile in 0..comptime!(width / COLUMNS) {
                let at = begin + each * strides.each + comptime!(tile * COLUMNS);
                let sum = sums[comptime!((2 * tile + half) as usize)];
                out[(at / 2) as usize] = sum * Sums::cast_from(factors[half as usize]);
            }
        }
    }
}

/// Stores a plane's left operand as rows in shared memory, spaced like those of other tiles.
#[cube]
pub fn keep(left: &Array<Pair>, to: &mut Shared<[Pair]>, #[comptime] width: u32) {
    let at = own_row() * comptime!(2 * distance(width)) + own_column() / 2;
    #[unroll]
    for step in 0..comptime!(width / SIDE) {
        #[unroll]
        for i in 0..4u32 {
            let below = comptime!(i % 2 * COLUMNS * 2 * distance(width));
            let beside = comptime!((step * SIDE + i / 2 * COLUMNS) / 2);
            to[(at + below + beside) as usize] = left[comptime!((4 * step + i) as usize)];
        }
    }
}

/// Loads the registers of step `step` of the operand that [`keep`] stored.
#[cube]
pub fn kept(from: &Shared<[Pair]>, #[comptime] step: u32, #[comptime] width: u32) -> Array<Pair> {
    let product = MmaDefinition::<bf16, bf16, f32>::new(16usize, 8usize, 16usize);
    let matrix = UNIT_POS_PLANE / 8;
    let row = UNIT_POS / PLANE * SIDE + UNIT_POS_PLANE % 8 + matrix % 2 * 8;
    let at = row * comptime!(2 * distance(width)) + comptime!(step * SIDE / 2) + matrix / 2 * 4;
    product.load_matrix::<Pair, Const<2>>(
        &from[at as usize..(at + 4) as usize],
        MatrixIdent::A,
        4usize,
        false,
    )
}
