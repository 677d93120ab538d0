//! Forward attention in tiles (Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691). A cube takes 64
//! queries of a head through the keys that they see, 64 at a time. A plane has 16 queries; its scores, weights and
//! outputs stay in registers.

use cubecl::prelude::*;

use super::tile::{
    LOG2_E, Read, TILE, Tiles, load, own_place, place_for, power, query_tile, sees_all, sees_none,
    tiles_of,
};
use crate::kernel::cube::fragment::{
    COLUMNS, SIDE, Sums, add_by_columns, add_by_rows, as_left, own_column, rows_of, write, zeros,
};
use crate::kernel::cube::philox::{Drop, Wide, block_of, counter_of, factor_of, keyed};
use crate::kernel::cube::scores::{Factors, line_of, score_of};
use crate::kernel::cube::softmax::LOWEST;
use crate::kernel::cube::strided::Strides;
use crate::kernel::cube::structure::{Place, Sizes, sees};

/// Number of tiles of sums that the scores take.
const ACROSS: u32 = TILE / COLUMNS;

/// The running softmax of a unit's two queries.
#[derive(CubeType)]
struct Running {
    /// Places of the two queries: the upper one, then the lower one.
    places: Sequence<Place>,
    /// Largest score so far of each query.
    largest: Array<f32>,
    /// This unit's shares of the sums of weights.
    totals: Array<f32>,
}

/// Computes the outputs `[B, H, Q, D]` and log-sum-exps `[B, H, Q]`.
#[cube(launch)]
pub fn attended(
    q: &Tensor<Sums>,
    k: &Tensor<Read>,
    v: &Tensor<Read>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    out: &mut Tensor<Sums>,
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
    let rules = comptime!(t.form.rules);
    if CUBE_POS as u32 >= sizes.lines / sizes.queries * tiles_of(&sizes) {
        terminate!();
    }
    let tile = query_tile(structure, &sizes, rules);
    let (row, head, own) = (tile.row, tile.head, tile.own);
    let (planes_first, planes_last) = (tile.plane.index(0usize), tile.plane.index(1usize));
    let drop = keyed(&drop, table, t.form.replayed);
    let counter = counter_of(&drop, row);

    let mut keys = place_for(t);
    let mut values = place_for(t);
    let queries = rows_of(q, &of_q, row, head, own, sizes.queries, t.width);
    let mut result = zeros(comptime!(t.width / COLUMNS));
    let mut running = Running {
        places: Sequence::new(),
        largest: Array::new(2usize),
        totals: Array::new(2usize),
    };
    #[unroll]
    for half in 0..2u32 {
        let place = own_place(&tile, half, structure, &sizes, rules);
        running.places.push(place);
        running.largest[half as usize] = f32::new(LOWEST);
        running.totals[half as usize] = 0.0f32;
    }

    let mut from = tile.begin;
    while from < tile.end {
        sync_cube();
        let kv_head = head / group;
        load(k, &mut keys, &of_k, row, kv_head, from, sizes.keys, t);
        load(v, &mut values, &of_v, row, kv_head, from, sizes.keys, t);
        sync_cube();
        if !sees_none(planes_first, planes_last, from, from + TILE) {
            let mut scores = zeros(ACROSS);
            add_by_rows(&mut scores, &queries, &keys, 0u32, COLUMNS, ACROSS, t.width);
            if sees_all(planes_first, planes_last, from, from + TILE, rules) {
                scale(
                    &mut scores,
                    &running.places,
                    from,
                    bias,
                    structure,
                    &sizes,
                    &factors,
                    true,
                    t,
                );
            } else {
                scale(
                    &mut scores,
                    &running.places,
                    from,
                    bias,
                    structure,
                    &sizes,
                    &factors,
                    false,
                    t,
                );
            }
            weigh(
                &mut scores,
                &mut result,
                &mut running,
                from,
                &sizes,
                &drop,
                &counter,
                t,
            );
            #[unroll]
            for step in 0..comptime!(TILE / SIDE) {
                let weights = as_left(&scores, comptime!(2 * step));
                let row = comptime!(SIDE * step).runtime();
                add_by_columns(&mut result, &weights, &values, row, COLUMNS, t.width);
            }
        }
        from += TILE;
    }

    let mut inverses = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2u32 {
        let total = of_row(running.totals[half as usize], false);
        // A query that sees no key has a zero output; a NaN stays one.
        let mut inverse = 0.0f32;
        let mut sum = -f32::new(LOWEST);
        if total != 0.0f32 {
            inverse = 1.0f32 / total;
            sum = running.largest[half as usize] + total.ln();
        }
        inverses[half as usize] = inverse;
        let query = own + comptime!(half * COLUMNS);
        if query < sizes.queries && UNIT_POS_PLANE % 4 == 0 {
            lse[((row * sizes.heads + head) * sizes.queries + query) as usize] = sum;
        }
    }
    write(
        &result,
        out,
        &of_out,
        &inverses,
        row,
        head,
        own,
        sizes.queries,
        t.width,
    );
}

/// Returns the sum, or the maximum, of a number over the four units that share a row.
#[cube]
fn of_row(value: f32, #[comptime] largest: bool) -> f32 {
    let mut all = value;
    // Units on different branches converge before they exchange values.
    sync_plane();
    #[unroll]
    for by in 1..3u32 {
        let other = plane_shuffle_xor(all, by);
        if comptime!(largest) {
            all = max(all, other);
        } else {
            all += other;
        }
    }
    all
}

/// Turns raw scores into scores; a key that a query does not see gets the lowest score.
#[cube]
fn scale(
    scores: &mut Array<Sums>,
    places: &Sequence<Place>,
    from: u32,
    bias: &[f32],
    structure: &[i32],
    sizes: &Sizes,
    factors: &Factors,
    #[comptime] all: bool,
    #[comptime] t: Tiles,
) {
    #[unroll]
    for at in 0..comptime!(2 * ACROSS) {
        let place = places.index(comptime!((at % 2) as usize));
        let mut pair = scores[at as usize];
        #[unroll]
        for i in 0..2u32 {
            let key = from + own_column() + comptime!(at / 2 * COLUMNS + i);
            let raw = pair.extract(comptime!(i as usize));
            let mut value = f32::new(LOWEST);
            if comptime!(all) {
                value = score_of(raw, place, key, bias, sizes, factors, t.form).value;
            } else {
                if sees(place, key, structure, t.form.rules) {
                    value = score_of(raw, place, key, bias, sizes, factors, t.form).value;
                }
            }
            pair.insert(comptime!(i as usize), value);
        }
        scores[at as usize] = pair;
    }
}

/// Turns scores into dropped weights relative to the largest score so far, and rescales the earlier outputs
/// accordingly.
#[cube]
fn weigh(
    scores: &mut Array<Sums>,
    result: &mut Array<Sums>,
    running: &mut Running,
    from: u32,
    sizes: &Sizes,
    drop: &Drop,
    counter: &Wide,
    #[comptime] t: Tiles,
) {
    #[unroll]
    for half in 0..2u32 {
        let mut top = running.largest[half as usize];
        #[unroll]
        for tile in 0..ACROSS {
            let pair = scores[comptime!((2 * tile + half) as usize)];
            top = max(top, max(pair.extract(0usize), pair.extract(1usize)));
        }
        let top = of_row(top, true);
        let shrunk = (running.largest[half as usize] - top).exp();
        running.largest[half as usize] = top;
        // Weights of a query that has seen no key yet are zero.
        let mut base = top * LOG2_E;
        if top == f32::new(LOWEST) {
            base = 0.0f32;
        }
        let mut total = running.totals[half as usize] * shrunk;
        #[unroll]
        for tile in 0..comptime!(t.width / COLUMNS) {
            let at = comptime!((2 * tile + half) as usize);
            let smaller = result[at] * Sums::cast_from(shrunk);
            result[at] = smaller;
        }
        let place = running.places.index(comptime!(half as usize));
        let words_at = line_of(place, from, from + 1, sizes).first + own_column();
        // The four keys of a word block are 16 apart: this unit has all of them.
        #[unroll]
        for block in 0..4u32 {
            let words = block_of(
                drop,
                counter,
                words_at + comptime!(block / 2 * COLUMNS + block % 2),
            );
            #[unroll]
            for i in 0..4u32 {
                let at = comptime!((2 * (2 * i + block / 2) + half) as usize);
                let mut pair = scores[at];
                let mut weight = power(pair.extract(comptime!((block % 2) as usize)), base);
                total += weight;
                if comptime!(t.form.drops) {
                    weight *= factor_of(drop, &words, i);
                }
                pair.insert(comptime!((block % 2) as usize), weight);
                scores[at] = pair;
            }
        }
        running.totals[half as usize] = total;
    }
}
