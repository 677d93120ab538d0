//! Dropout with bit-identical masks to the CPU's: each unit draws one block of random words for its four elements.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty_like, units};
use super::philox::{Drop, block_of, counter_of, drop_args, factor_of, keyed};
use crate::kernel::DropKey;
use crate::rng::Purpose;

/// Number of blocks of a group of 64 elements, as laid out by [`DropKey::fill`].
const BLOCKS: usize = 16;

#[cube(launch)]
fn dropped(
    x: &[f32],
    base: &[f32],
    table: &[u32],
    out: &mut [f32],
    drop: Drop,
    per_row: u32,
    blocks_per_row: u32,
    #[comptime] onto: bool,
    #[comptime] whole_rows: bool,
    #[comptime] replayed: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    let row = unit / blocks_per_row;
    let block = unit % blocks_per_row;
    let start = row * per_row;
    if start >= out.len() as u32 {
        terminate!();
    }
    let drop = keyed(&drop, table, replayed);
    let counter = counter_of(&drop, row);
    let mut index = block;
    if comptime!(whole_rows) {
        index = 0u32;
    }
    let words = block_of(&drop, &counter, index);
    let first = block / 16u32 * 64u32 + block % 16u32;
    #[unroll]
    for i in 0..4u32 {
        let element = first + i * 16;
        if element < per_row {
            let at = (start + element) as usize;
            let word = comptime!(if whole_rows { 0 } else { i });
            let mut value = x[at] * factor_of(&drop, &words, word);
            if comptime!(onto) {
                value += base[at];
            }
            out[at] = value;
        }
    }
}

/// Multiplies by the dropout factors of single elements, or of whole rows (dimension 0).
pub fn forward(x: CubeTensor, key: DropKey, rows: bool) -> CubeTensor {
    let purpose = if rows {
        Purpose::DropPath
    } else {
        Purpose::Dropout
    };
    launch(x, None, &key, purpose)
}

/// Returns `x` plus `y` multiplied by the dropout factors of its elements.
pub fn add_dropped(x: CubeTensor, y: CubeTensor, key: DropKey) -> CubeTensor {
    launch(y, Some(contiguous(x)), &key, Purpose::Dropout)
}

fn launch(x: CubeTensor, base: Option<CubeTensor>, key: &DropKey, purpose: Purpose) -> CubeTensor {
    let x = contiguous(x);
    let (count, all) = (x.meta.shape()[0], x.meta.shape().num_elements());
    if all == 0 {
        return x;
    }
    let per_row = all / count;
    let blocks = per_row.div_ceil(4 * BLOCKS) * BLOCKS;
    let out = empty_like(&x);
    let (cubes, dim) = units(&x, count * blocks);
    let (drop, table) = drop_args(key, purpose);
    let replayed = table.is_some();
    let onto = base.is_some();
    let [base, table] = [base, table].map(|own| own.unwrap_or_else(|| x.clone()));
    dropped::launch(
        &x.client,
        cubes,
        dim,
        x.clone().into_buffer_arg(),
        base.into_buffer_arg(),
        table.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        drop,
        per_row as u32,
        blocks as u32,
        onto,
        purpose == Purpose::DropPath,
        replayed,
    );
    out
}
