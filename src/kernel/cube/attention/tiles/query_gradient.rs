//! The gradient of attention's queries in tiles (Dao et al. 2022, appendix B.4), computed from the log-sum-exps. A
//! cube takes 64 queries through the keys, as in the forward pass, so nothing is accumulated through atomics.

use cubecl::prelude::*;

use super::tile::{
    LOG2_E, Read, TILE, Tiles, load, own_place, place_for, power, query_tile, sees_all, sees_none,
    tiles_of,
};
use crate::kernel::cube::fragment::{
    COLUMNS, SIDE, Sums, add_by_columns, add_by_rows, as_left, own_column, rows_of, write, zeros,
};
use crate::kernel::cube::philox::{Drop, Wide, block_of, counter_of, factor_of, keyed};
use crate::kernel::cube::scores::{Added, Factors, line_of, score_of};
use crate::kernel::cube::strided::Strides;
use crate::kernel::cube::structure::{Place, Sizes, line_number, sees};

/// Number of tiles of sums at a time: every other one of those of 64 keys, so that a unit has all keys of a block of
/// random words.
const ACROSS: u32 = TILE / COLUMNS / 2;

/// A unit's two queries: the upper one, then the lower one.
#[derive(CubeType)]
struct Queries {
    places: Sequence<Place>,
    /// Log-sum-exp of each query, times log₂ e.
    lse: Array<f32>,
    /// Dot product of each query's output with its gradient.
    products: Array<f32>,
}

/// Computes the gradient of the queries, `[B, H, Q, D]`.
#[cube(launch)]
pub fn query_gradient(
    q: &Tensor<Sums>,
    k: &Tensor<Read>,
    v: &Tensor<Read>,
    grad: &Tensor<Sums>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    lse: &[f32],
    products: &[f32],
    out: &mut Tensor<Sums>,
    sizes: Sizes,
    factors: Factors,
    drop: Drop,
    of_q: Strides,
    of_k: Strides,
    of_v: Strides,
    of_grad: Strides,
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
    let results = rows_of(grad, &of_grad, row, head, own, sizes.queries, t.width);
    let mut gradient = zeros(comptime!(t.width / COLUMNS));
    let mut own_queries = Queries {
        places: Sequence::new(),
        lse: Array::new(2usize),
        products: Array::new(2usize),
    };
    let mut ones = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2u32 {
        let place = own_place(&tile, half, structure, &sizes, rules);
        let at = line_number(&place, &sizes) as usize;
        own_queries.places.push(place);
        own_queries.lse[half as usize] = lse[at] * LOG2_E;
        own_queries.products[half as usize] = products[at];
        ones[half as usize] = 1.0f32;
    }

    let mut from = tile.begin;
    while from < tile.end {
        sync_cube();
        let kv_head = head / group;
        load(k, &mut keys, &of_k, row, kv_head, from, sizes.keys, t);
        load(v, &mut values, &of_v, row, kv_head, from, sizes.keys, t);
        sync_cube();
        if !sees_none(planes_first, planes_last, from, from + TILE) {
            let all = sees_all(planes_first, planes_last, from, from + TILE, rules);
            for other in 0..2u32 {
                let aside = other * COLUMNS;
                let mut scores = zeros(ACROSS);
                add_by_rows(&mut scores, &queries, &keys, aside, SIDE, ACROSS, t.width);
                let mut grads = zeros(ACROSS);
                add_by_rows(&mut grads, &results, &values, aside, SIDE, ACROSS, t.width);
                slopes(
                    &mut scores,
                    &grads,
                    &own_queries,
                    from,
                    aside,
                    all,
                    bias,
                    structure,
                    &sizes,
                    &factors,
                    &drop,
                    &counter,
                    t,
                );
                #[unroll]
                for two in 0..comptime!(ACROSS / 2) {
                    let left = as_left(&scores, comptime!(2 * two));
                    let row = aside + comptime!(2 * SIDE * two);
                    add_by_columns(&mut gradient, &left, &keys, row, SIDE, t.width);
                }
            }
        }
        from += TILE;
    }
    write(
        &gradient,
        out,
        &of_out,
        &ones,
        row,
        head,
        own,
        sizes.queries,
        t.width,
    );
}

/// Turns raw scores into their gradients, given the gradients of the weights.
#[cube]
fn slopes(
    scores: &mut Array<Sums>,
    grads: &Array<Sums>,
    queries: &Queries,
    from: u32,
    aside: u32,
    all: bool,
    bias: &[f32],
    structure: &[i32],
    sizes: &Sizes,
    factors: &Factors,
    drop: &Drop,
    counter: &Wide,
    #[comptime] t: Tiles,
) {
    #[unroll]
    for half in 0..2u32 {
        let place = queries.places.index(comptime!(half as usize));
        let lse = queries.lse[half as usize];
        let product = queries.products[half as usize];
        let words_at = line_of(place, from, from + 1, sizes).first + aside + own_column();
        #[unroll]
        for block in 0..2u32 {
            let words = block_of(drop, counter, words_at + block);
            #[unroll]
            for i in 0..4u32 {
                let at = comptime!((2 * i + half) as usize);
                let key = from + aside + own_column() + comptime!(SIDE * i + block);
                let mut pair = scores[at];
                let raw = pair.extract(comptime!(block as usize));
                let mut grad = grads[at].extract(comptime!(block as usize));
                if comptime!(t.form.drops) {
                    grad *= factor_of(drop, &words, i);
                }
                let mut slope = 0.0f32;
                let seen = all || sees(place, key, structure, t.form.rules);
                if comptime!(t.form.added == Added::Nothing) {
                    // Nothing is read per key, so all units take the same branch.
                    let score = score_of(raw, place, key, bias, sizes, factors, t.form);
                    let found = power(score.value, lse) * (grad - product) * score.slope;
                    slope = select(seen, found, 0.0f32);
                } else {
                    if seen {
                        let score = score_of(raw, place, key, bias, sizes, factors, t.form);
                        slope = power(score.value, lse) * (grad - product) * score.slope;
                    }
                }
                pair.insert(comptime!(block as usize), slope);
                scores[at] = pair;
            }
        }
    }
}
