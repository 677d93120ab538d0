//! Products on tensor cores whose results stay in registers (PTX ISA, `mma.m16n8k16`): a plane multiplies 16 rows of a left operand in
//! bfloat16 with 8 columns of a right one, 16 numbers deep, and adds to sums of 32 bits. Unit `u` of a plane holds, of each tile
//! of sums, rows `u / 4` and `u / 4 + 8` of columns `u % 4 * 2` and the next one.

use burn::tensor::bf16;
use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::ir::{DeviceProperties, ElemType, FloatKind};
use cubecl::prelude::*;

use super::laid::Strides;

/// Units of a plane.
pub const PLANE: u32 = 32;

/// Rows of a product, and the numbers that one is deep.
pub const SIDE: u32 = 16;

/// Columns of a tile of sums.
pub const COLUMNS: u32 = 8;

/// Two neighbours of a row in bfloat16: a register of an operand.
pub type Pair = Vector<bf16, Const<2>>;

/// Two neighbours of a row of sums.
pub type Sums = Vector<f32, Const<2>>;

/// Four neighbours of a row in shared memory.
pub type Quad = Vector<bf16, Const<4>>;

/// Whether a device has these products, planes of 32 units for them, and loads of their operands out of shared memory.
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

/// The first row of a cube's that this unit holds; the other one is 8 below.
#[cube]
pub fn own_row() -> u32 {
    UNIT_POS / PLANE * SIDE + UNIT_POS_PLANE / 4
}

/// The first of the two columns of a tile that this unit holds.
#[cube]
pub fn own_column() -> u32 {
    UNIT_POS_PLANE % 4 * 2
}

/// Tiles of sums that are zero, two vectors each: that of the upper row and that of the lower one.
#[cube]
pub fn zeros(#[comptime] tiles: u32) -> Array<Sums> {
    let mut sums = Array::<Sums>::new(comptime!(2 * tiles as usize));
    #[unroll]
    for i in 0..comptime!(2 * tiles as usize) {
        sums[i] = Sums::cast_from(0.0f32);
    }
    sums
}

/// Adds a product to tile `tile` of sums.
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

/// Adds the product of rows that a plane holds with the rows of a tile in shared memory, `count` tiles of eight at a distance of
/// `apart`, from `row` on: `left · tileᵀ`.
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

/// Step `step` of it, 16 numbers deep, with the left operand's registers of that step.
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

/// Adds the product of a left operand with 16 rows of a tile in shared memory, eight from `row` on and eight at a distance of `apart`
/// from it.
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

/// Two right operands out of shared memory, of eight columns each: columns are rows of the tile, or, turned, its columns.
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
    // Unit `u` says where row `u % 8` of matrix `u / 8` of four begins.
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

/// Quads from row to row of a tile in shared memory: eight numbers more than a row has, so that rows begin in other banks.
pub fn distance(width: u32) -> u32 {
    (width + 8) / 4
}

/// Registers of a left operand that has several, 16 numbers deep or 16 rows each: those of number `number`.
#[cube]
pub fn registers_of(left: &Array<Pair>, #[comptime] number: u32) -> Array<Pair> {
    let mut own = Array::<Pair>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        own[i] = left[comptime!(4 * number as usize + i)];
    }
    own
}

/// Two tiles of sums as a left operand, 16 deep: how they are held is how the operand is.
#[cube]
pub fn as_left(sums: &Array<Sums>, #[comptime] first: u32) -> Array<Pair> {
    let mut left = Array::<Pair>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        left[i] = Pair::cast_from(sums[comptime!(2 * first as usize + i)]);
    }
    left
}

/// Rows of a head from a tensor as a left operand: number `first` is the upper one of this unit; zeros behind the last.
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

/// Writes tiles of sums as rows of a head, `[B, H, n, D]`, each row times a factor.
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

/// Puts a left operand of a plane into rows of shared memory, as far apart as those of other tiles.
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

/// The registers of step `step` of what [`keep`] has put there.
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
