//! The kernel: how its planes multiply the steps that have arrived in shared memory.

use burn::tensor::bf16;
use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::prelude::*;

use super::stage::{
    ACROSS, ALONG, CHUNK, DEPTH, Layout, Operand, STAGES, TILE, commit, fetch, wait,
};
use crate::kernel::cube::fragment::{COLUMNS, PLANE, Pair, SIDE, Sums, add, registers_of, zeros};

/// Number of rows and columns that a plane computes.
const OWN: u32 = 64;

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Layout of the left operand.
    pub left: Layout,
    /// Layout of the right operand.
    pub right: Layout,
}

/// Sizes and strides of a product.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Sizes {
    left: Operand,
    right: Operand,
    /// Inner dimension of the product.
    depth: u32,
    /// Distance between rows of the result.
    out_step: u32,
    /// Distance between results of a batch.
    out_batch: u32,
    /// Number of results in the batch.
    batches: u32,
}

/// Computes `left · right`, `[.., m, n]`.
#[cube(launch)]
pub fn multiplied<N: Size>(
    left: &Tensor<bf16>,
    right: &Tensor<bf16>,
    out: &mut Tensor<Vector<f32, N>>,
    sizes: Sizes,
    #[comptime] form: Form,
) {
    let down = (sizes.left.count + TILE - 1) / TILE;
    let across = (sizes.right.count + TILE - 1) / TILE;
    let number = CUBE_POS as u32;
    let batch = number / (down * across);
    if batch >= sizes.batches {
        terminate!();
    }
    // Concurrent cubes share rows and columns: eight tiles of rows go through all columns together.
    let number = number % (down * across);
    let band = number / (8 * across) * 8;
    let height = min(down - band, 8);
    let first_row = (band + number % (8 * across) % height) * TILE;
    let first_column = number % (8 * across) / height * TILE;

    let mut rows = Shared::<[bf16]>::new_aligned_slice(
        comptime!((STAGES * form.left.size()) as usize),
        16usize,
    );
    let mut columns = Shared::<[bf16]>::new_aligned_slice(
        comptime!((STAGES * form.right.size()) as usize),
        16usize,
    );
    #[unroll]
    for stage in 0..comptime!(STAGES - 1) {
        let depth = comptime!(stage * DEPTH).runtime();
        fetch(
            left,
            &mut rows,
            &sizes.left,
            batch,
            first_row,
            depth,
            sizes.depth,
            stage,
            form.left,
        );
        fetch(
            right,
            &mut columns,
            &sizes.right,
            batch,
            first_column,
            depth,
            sizes.depth,
            stage,
            form.right,
        );
        commit();
    }

    let plane = UNIT_POS / PLANE;
    let own_row = plane / 2 * OWN;
    let own_column = plane % 2 * OWN;
    let mut sums = zeros(comptime!(OWN / SIDE * OWN / COLUMNS));
    let mut done = 0u32;
    let mut stage = 0u32;
    while done < sizes.depth {
        wait();
        sync_cube();
        let ahead = done + comptime!((STAGES - 1) * DEPTH);
        let free = (stage + comptime!(STAGES - 1)) % STAGES;
        fetch(
            left,
            &mut rows,
            &sizes.left,
            batch,
            first_row,
            ahead,
            sizes.depth,
            free,
            form.left,
        );
        fetch(
            right,
            &mut columns,
            &sizes.right,
            batch,
            first_column,
            ahead,
            sizes.depth,
            free,
            form.right,
        );
        commit();
        let rows_at = stage * comptime!(form.left.size());
        let columns_at = stage * comptime!(form.right.size());
        #[unroll]
        for step in 0..comptime!(DEPTH / SIDE) {
            add_step(
                &mut sums,
                &rows,
                &columns,
                rows_at,
                columns_at,
                own_row,
                own_column,
                comptime!(step * SIDE),
                form,
            );
        }
        stage = (stage + 1) % STAGES;
        done += DEPTH;
    }
    let row = first_row + own_row + UNIT_POS_PLANE / 4;
    let column = first_column + own_column + UNIT_POS_PLANE % 4 * 2;
    write::<N>(&sums, out, &sizes, batch, row, column);
}

/// Adds the products of 16 steps along the inner dimension.
#[cube]
fn add_step(
    sums: &mut Array<Sums>,
    rows: &Shared<[bf16]>,
    columns: &Shared<[bf16]>,
    rows_at: u32,
    columns_at: u32,
    own_row: u32,
    own_column: u32,
    #[comptime] depth: u32,
    #[comptime] form: Form,
) {
    let down = comptime!(OWN / SIDE);
    let mut left = Array::<Pair>::new(comptime!(4 * down as usize));
    #[unroll]
    for i in 0..down {
        let row = own_row + comptime!(i * SIDE);
        let registers = operand(rows, rows_at, row, depth, true, form.left);
        #[unroll]
        for register in 0..4usize {
            left[comptime!(4 * i as usize + register)] = registers[register];
        }
    }
    #[unroll]
    for two in 0..comptime!(OWN / SIDE) {
        let column = own_column + comptime!(two * SIDE);
        let right = operand(columns, columns_at, column, depth, false, form.right);
        #[unroll]
        for i in 0..down {
            let own = registers_of(&left, i);
            let tile = comptime!(i * (OWN / COLUMNS) + 2 * two);
            add(sums, tile, &own, right[0], right[1]);
            add(sums, comptime!(tile + 1), &own, right[2], right[3]);
        }
    }
}

/// Loads the registers of 16 rows, or of twice eight columns, from shared memory.
#[cube]
fn operand(
    from: &Shared<[bf16]>,
    place: u32,
    each: u32,
    #[comptime] depth: u32,
    #[comptime] left: bool,
    #[comptime] lies: Layout,
) -> Array<Pair> {
    let product = MmaDefinition::<bf16, bf16, f32>::new(16usize, 8usize, 16usize);
    // Unit `u` gives the address of row `u % 8` of matrix `u / 8` of four.
    let matrix = UNIT_POS_PLANE / 8;
    let line = UNIT_POS_PLANE % 8;
    let mut beside = matrix % 2 * 8;
    let mut along = matrix / 2 * 8;
    if comptime!(!left) {
        beside = matrix / 2 * 8;
        along = matrix % 2 * 8;
    }
    let mut at = place;
    if comptime!(lies == Layout::Along) {
        at += (each + line + beside) * ALONG + along + depth;
    } else {
        at += (line + along + depth) * ACROSS + each + beside;
    }
    product.load_matrix::<bf16, Const<2>>(
        &from[at as usize..(at + CHUNK) as usize],
        MatrixIdent::A,
        4usize,
        comptime!(lies == Layout::Across),
    )
}

/// Writes a unit's elements, the first of which are at `row` and `column` of the result.
#[cube]
fn write<N: Size>(
    sums: &Array<Sums>,
    out: &mut Tensor<Vector<f32, N>>,
    sizes: &Sizes,
    batch: u32,
    row: u32,
    column: u32,
) {
    let width = N::value().comptime() as u32;
    let begin = batch * sizes.out_batch;
    #[unroll]
    for each in 0..comptime!(OWN / COLUMNS) {
        let row = row + comptime!(each * COLUMNS);
        if row < sizes.left.count {
            #[unroll]
            for piece in 0..comptime!(OWN / COLUMNS * 2 / width) {
                let tile = comptime!(piece * width / 2);
                let first = comptime!(piece * width % 2);
                let at = comptime!(((each / 2 * (OWN / COLUMNS) + tile) * 2 + each % 2) as usize);
                let column = column + comptime!(tile * COLUMNS + first);
                if column < sizes.right.count {
                    let mut value = Vector::<f32, N>::empty();
                    #[unroll]
                    for i in 0..comptime!(width as usize) {
                        value.insert(i, sums[at].extract(comptime!(first as usize + i)));
                    }
                    out[((begin + row * sizes.out_step + column) / width) as usize] = value;
                }
            }
        }
    }
}
