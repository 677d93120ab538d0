//! Attention in tiles (Dao et al. 2022, arXiv:2205.14135): a cube takes 64 queries of a head through the keys that they see, 64
//! at a time, and keeps the largest score, the sum of weights and the weighted sum of values of each query.

use burn::tensor::bf16;
use cubecl::prelude::*;

use super::product::{Product, add_product, put, zeros};
use super::tile::{OWN, Read, TILE, Tiles, UNITS, WEIGHTS, load, of_both, own_block, own_column};
use crate::kernel::cube::laid::{Strides, start_of};
use crate::kernel::cube::philox::{Drop, block_of, counter_of, factor_of, keyed};
use crate::kernel::cube::scores::{Factors, line_of, score_of};
use crate::kernel::cube::softmax::LOWEST;
use crate::kernel::cube::structure::{Sizes, place_of, sees};

/// Results `[B, H, Q, D]` and log-sum-exps `[B, H, Q]`.
#[cube(launch)]
pub fn attended(
    q: &Tensor<Read>,
    k: &Tensor<Read>,
    v: &Tensor<Read>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    out: &mut Tensor<f32>,
    lse: &mut [f32],
    sizes: Sizes,
    factors: Factors,
    drop: Drop,
    of_q: Strides,
    of_k: Strides,
    of_v: Strides,
    of_out: Strides,
    group: u32,
    #[comptime] t: Tiles,
) {
    let form = comptime!(t.form);
    let tiles = (sizes.queries + TILE - 1) / TILE;
    let number = CUBE_POS as u32;
    if number >= sizes.lines / sizes.queries * tiles {
        terminate!();
    }
    let (row, head) = (number / tiles / sizes.heads, number / tiles % sizes.heads);
    // Under causality the last tile sees the most keys: it goes first.
    let first = (tiles - 1 - number % tiles) * TILE;
    let line = number / tiles * sizes.queries;
    let last = min(first + TILE, sizes.queries) - 1;
    let own = first + UNIT_POS / 2;
    let place = place_of(line + min(own, last), structure, &sizes, form.rules);
    let begin = place_of(line + first, structure, &sizes, form.rules).start / TILE * TILE;
    let end = place_of(line + last, structure, &sizes, form.rules).end;
    let drop = keyed(&drop, table, form.replayed);
    let counter = counter_of(&drop, row);

    let mut queries = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut keys = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut values = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut scores = Shared::<[f32]>::new_slice(comptime!((TILE * t.results()) as usize));
    let mut weights = Shared::<[bf16]>::new_slice(comptime!((TILE * WEIGHTS) as usize));
    let mut pairs = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    let mut result = Array::<f32>::new(comptime!((t.width / 2) as usize));
    #[unroll]
    for i in 0..comptime!(t.width / 2) {
        result[i as usize] = 0.0f32;
    }
    load(q, &mut queries, &of_q, row, head, first, sizes.queries, t);

    let mut largest = f32::new(LOWEST);
    let mut total = 0.0f32;
    let own_scores = UNIT_POS / 2 * comptime!(t.results());
    let mut from = begin;
    while from < end {
        load(k, &mut keys, &of_k, row, head / group, from, sizes.keys, t);
        load(
            v,
            &mut values,
            &of_v,
            row,
            head / group,
            from,
            sizes.keys,
            t,
        );
        sync_cube();
        let mut sum = zeros(TILE);
        add_product(&mut sum, &queries, &keys, comptime!(of_scores(t)));
        put(&sum, &mut scores, TILE, comptime!(t.results()));
        sync_cube();

        let mut top = largest;
        let mut own_values = Array::<f32>::new(comptime!(OWN as usize));
        #[unroll]
        for number in 0..comptime!(OWN / 4) {
            let block = own_block(number);
            #[unroll]
            for i in 0..4u32 {
                let column = own_column(block, i);
                let raw = scores[(own_scores + column) as usize];
                let mut value = f32::new(LOWEST);
                if sees(&place, from + column, structure, form.rules) {
                    let key = from + column;
                    let score = score_of(raw, &place, key, bias, &sizes, &factors, form);
                    value = score.value;
                }
                own_values[comptime!((4 * number + i) as usize)] = value;
                top = max(top, value);
            }
        }
        let top = of_both(top, &mut pairs, true);
        let shrunk = (largest - top).exp();
        total *= shrunk;
        largest = top;
        let words_at = line_of(&place, from, from + 1, &sizes).first + UNIT_POS % 2 * 8;
        #[unroll]
        for number in 0..comptime!(OWN / 4) {
            let block = own_block(number);
            let words = block_of(&drop, &counter, words_at + block);
            #[unroll]
            for i in 0..4u32 {
                let column = own_column(block, i);
                let value = own_values[comptime!((4 * number + i) as usize)];
                let mut weight = 0.0f32;
                // A score that is no number is not the lowest one.
                if value != f32::new(LOWEST) {
                    weight = (value - top).exp();
                }
                total += weight;
                if comptime!(form.drops) {
                    weight *= factor_of(&drop, &words, i);
                }
                weights[(UNIT_POS / 2 * WEIGHTS + column) as usize] = bf16::cast_from(weight);
            }
        }
        sync_cube();
        let mut sum = zeros(t.width);
        add_product(&mut sum, &weights, &values, comptime!(of_values(t)));
        put(&sum, &mut scores, t.width, comptime!(t.results()));
        sync_cube();
        #[unroll]
        for i in 0..comptime!(t.width / 2) {
            let at = own_scores + comptime!(2 * i) + UNIT_POS % 2;
            result[i as usize] = result[i as usize] * shrunk + scores[at as usize];
        }
        sync_cube();
        from += TILE;
    }

    let total = of_both(total, &mut pairs, false);
    // A query that sees nothing has a result of zero; a NaN stays one.
    let mut inverse = 0.0f32;
    let mut sum = -f32::new(LOWEST);
    if total != 0.0f32 {
        inverse = 1.0f32 / total;
        sum = largest + total.ln();
    }
    if own <= last {
        let begin = start_of(&of_out, row, head, own);
        #[unroll]
        for i in 0..comptime!(t.width / 2) {
            let at = begin + comptime!(2 * i) + UNIT_POS % 2;
            out[at as usize] = result[i as usize] * inverse;
        }
        if UNIT_POS % 2 == 0 {
            lse[(line + own) as usize] = sum;
        }
    }
}

/// Queries by keys: a tile of scores.
pub fn of_scores(t: Tiles) -> Product {
    Product {
        n: TILE,
        k: t.width,
        left: t.distance(),
        right: t.distance(),
        left_by_column: false,
        right_by_column: true,
    }
}

/// Weights by values, or slopes by keys: a tile of results.
pub fn of_values(t: Tiles) -> Product {
    Product {
        n: t.width,
        k: TILE,
        left: WEIGHTS,
        right: t.distance(),
        left_by_column: false,
        right_by_column: false,
    }
}

/// The same by keys: weights stand in rows of queries.
pub fn of_keys(t: Tiles) -> Product {
    Product {
        left_by_column: true,
        ..of_values(t)
    }
}
