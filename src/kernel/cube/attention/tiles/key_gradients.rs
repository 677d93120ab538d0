//! The gradients of attention's keys and values in tiles (Dao et al. 2022, appendix B.4), computed from the
//! log-sum-exps. A cube takes 64 keys through the queries that see some of them. Scores are held with keys as rows,
//! so they can serve as left operands directly. Query heads that share keys are added one after the other.

use cubecl::prelude::*;

use super::held::{add_held, held};
use super::tile::{LOG2_E, Read, TILE, Tiles, UNITS, load, place_for, power, sees_all, sees_none};
use crate::kernel::cube::fragment::{
    COLUMNS, PLANE, SIDE, Sums, add_by_columns, as_left, own_column, own_row, write, zeros,
};
use crate::kernel::cube::philox::{Drop, Wide, block_of, counter_of, factor_of, keyed};
use crate::kernel::cube::scores::{Factors, line_of, score_of};
use crate::kernel::cube::softmax::LOWEST;
use crate::kernel::cube::strided::Strides;
use crate::kernel::cube::structure::{Place, Sizes, place_in, sees};

/// Number of tiles of sums of queries that a plane works on at a time.
const ACROSS: u32 = 4;

/// Values kept in shared memory beside a tile of queries. `numbers` holds for each query its log-sum-exp times log₂
/// e, and the dot product of its output with the gradient. `kept` says which weights dropout keeps: bit
/// `key % 8 + key / 16 * 8` of word `key / 8 % 2` of a query.
#[derive(CubeType)]
struct Beside {
    numbers: Shared<[Sums]>,
    kept: Shared<[u32]>,
}

/// Computes the gradients of keys and values, `[B, KV, K, D]`.
#[cube(launch)]
pub fn key_gradients(
    q: &Tensor<Read>,
    k: &Tensor<Sums>,
    v: &Tensor<Sums>,
    grad: &Tensor<Read>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    lse: &[f32],
    products: &[f32],
    out_k: &mut Tensor<Sums>,
    out_v: &mut Tensor<Sums>,
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
    let tiles = (sizes.keys + TILE - 1) / TILE;
    let kv_heads = sizes.heads / group;
    let number = CUBE_POS as u32;
    if number >= sizes.lines / sizes.queries / group * tiles {
        terminate!();
    }
    let (row, kv_head) = (number / tiles / kv_heads, number / tiles % kv_heads);
    let from = number % tiles * TILE;
    let own = from + own_row();
    let planes = from + UNIT_POS / PLANE * SIDE;
    let drop = keyed(&drop, table, t.form.replayed);
    let counter = counter_of(&drop, row);

    let mut queries = place_for(t);
    let mut results = place_for(t);
    let mut beside = Beside {
        numbers: Shared::new_slice(comptime!(TILE as usize)),
        kept: Shared::new_slice(comptime!(2 * TILE as usize)),
    };
    let keys = held(k, &of_k, row, kv_head, own, sizes.keys, t);
    let values = held(v, &of_v, row, kv_head, own, sizes.keys, t);
    let mut d_k = zeros(comptime!(t.width / COLUMNS));
    let mut d_v = zeros(comptime!(t.width / COLUMNS));
    for member in 0..group {
        let head = kv_head * group + member;
        let mut first = 0u32;
        while first < sizes.queries {
            let last = min(first + TILE, sizes.queries) - 1;
            let begin = place_in(row, head, first, structure, &sizes, rules);
            let end = place_in(row, head, last, structure, &sizes, rules);
            if !sees_none(&begin, &end, from, from + TILE) {
                sync_cube();
                load(q, &mut queries, &of_q, row, head, first, sizes.queries, t);
                load(
                    grad,
                    &mut results,
                    &of_grad,
                    row,
                    head,
                    first,
                    sizes.queries,
                    t,
                );
                load_beside(
                    &mut beside,
                    lse,
                    products,
                    &begin,
                    first,
                    from,
                    &sizes,
                    &drop,
                    &counter,
                    t,
                );
                sync_cube();
                if !sees_none(&begin, &end, planes, planes + SIDE) {
                    let all = sees_all(&begin, &end, planes, planes + SIDE, rules);
                    for part in 0..comptime!(TILE / COLUMNS / ACROSS) {
                        let behind = part * comptime!(ACROSS * COLUMNS);
                        let mut scores = zeros(ACROSS);
                        add_held(&mut scores, &keys, &queries, behind, ACROSS, t);
                        let mut grads = zeros(ACROSS);
                        add_held(&mut grads, &values, &results, behind, ACROSS, t);
                        if all {
                            turn(
                                &mut scores,
                                &mut grads,
                                &beside,
                                row,
                                head,
                                first,
                                behind,
                                own,
                                bias,
                                structure,
                                &sizes,
                                &factors,
                                &drop,
                                true,
                                t,
                            );
                        } else {
                            turn(
                                &mut scores,
                                &mut grads,
                                &beside,
                                row,
                                head,
                                first,
                                behind,
                                own,
                                bias,
                                structure,
                                &sizes,
                                &factors,
                                &drop,
                                false,
                                t,
                            );
                        }
                        #[unroll]
                        for two in 0..comptime!(ACROSS / 2) {
                            let row = behind + comptime!(SIDE * two);
                            let weights = as_left(&scores, comptime!(2 * two));
                            add_by_columns(&mut d_v, &weights, &results, row, COLUMNS, t.width);
                            let slopes = as_left(&grads, comptime!(2 * two));
                            add_by_columns(&mut d_k, &slopes, &queries, row, COLUMNS, t.width);
                        }
                    }
                }
            }
            first += TILE;
        }
    }
    let mut ones = Array::<f32>::new(2usize);
    ones[0] = 1.0f32;
    ones[1] = 1.0f32;
    let count = sizes.keys;
    write(
        &d_k, out_k, &of_out, &ones, row, kv_head, own, count, t.width,
    );
    write(
        &d_v, out_v, &of_out, &ones, row, kv_head, own, count, t.width,
    );
}

/// Loads the values kept beside a tile of queries, the first of which is `begin`. Queries past the end get values
/// that make their weights zero.
#[cube]
fn load_beside(
    beside: &mut Beside,
    lse: &[f32],
    products: &[f32],
    begin: &Place,
    first: u32,
    from: u32,
    sizes: &Sizes,
    drop: &Drop,
    counter: &Wide,
    #[comptime] t: Tiles,
) {
    let line = (begin.row * sizes.heads + begin.head) * sizes.queries;
    if UNIT_POS < TILE {
        let query = first + UNIT_POS;
        let mut numbers = Sums::cast_from(0.0f32);
        numbers.insert(0usize, -f32::new(LOWEST));
        if query < sizes.queries {
            numbers.insert(0usize, lse[(line + query) as usize] * LOG2_E);
            numbers.insert(1usize, products[(line + query) as usize]);
        }
        beside.numbers[UNIT_POS as usize] = numbers;
    }
    if comptime!(t.form.drops) {
        let mut number = UNIT_POS;
        while number < comptime!(2 * TILE) {
            // Dropout needs rows of keys of whole word blocks, so the words of successive queries are evenly spaced.
            let words_at = line_of(begin, from, from + 1, sizes).first
                + number / 2 * (sizes.keys / 4)
                + number % 2 * COLUMNS;
            let mut kept = 0u32;
            for block in 0..COLUMNS {
                let words = block_of(drop, counter, words_at + block);
                #[unroll]
                for i in 0..4u32 {
                    if factor_of(drop, &words, i) != 0.0f32 {
                        kept |= 1u32 << (block + comptime!(COLUMNS * i));
                    }
                }
            }
            beside.kept[number as usize] = kept;
            number += UNITS;
        }
    }
}

/// Turns raw scores into dropped weights, and gradients of the weights into those of the raw scores.
#[cube]
fn turn(
    scores: &mut Array<Sums>,
    grads: &mut Array<Sums>,
    beside: &Beside,
    row: u32,
    head: u32,
    first: u32,
    behind: u32,
    own: u32,
    bias: &[f32],
    structure: &[i32],
    sizes: &Sizes,
    factors: &Factors,
    drop: &Drop,
    #[comptime] all: bool,
    #[comptime] t: Tiles,
) {
    let bit = UNIT_POS_PLANE / 4 + UNIT_POS / PLANE * COLUMNS;
    #[unroll]
    for column in 0..comptime!(2 * ACROSS) {
        let within = behind + own_column() + comptime!(column / 2 * COLUMNS + column % 2);
        let number = beside.numbers[within as usize];
        // A query past the end is treated as the last one; its weights are zero.
        let query = min(first + within, sizes.queries - 1);
        let place = place_in(row, head, query, structure, sizes, t.form.rules);
        #[unroll]
        for half in 0..2u32 {
            let at = comptime!((column / 2 * 2 + half) as usize);
            let i = comptime!((column % 2) as usize);
            let key = own + comptime!(half * COLUMNS);
            let mut weight_pair = scores[at];
            let mut slope_pair = grads[at];
            let mut weight = 0.0f32;
            let mut slope = 0.0f32;
            let mut seen = true;
            if comptime!(!all) {
                seen = sees(&place, key, structure, t.form.rules);
            }
            if seen {
                let score = score_of(
                    weight_pair.extract(i),
                    &place,
                    key,
                    bias,
                    sizes,
                    factors,
                    t.form,
                );
                weight = power(score.value, number.extract(0usize));
                let mut grad = slope_pair.extract(i);
                let mut dropped = weight;
                if comptime!(t.form.drops) {
                    let kept = beside.kept[(2 * within + half) as usize] >> bit & 1u32;
                    let factor = select(kept == 1u32, drop.kept, 0.0f32);
                    grad *= factor;
                    dropped *= factor;
                }
                slope = weight * (grad - number.extract(1usize)) * score.slope;
                weight = dropped;
            }
            weight_pair.insert(i, weight);
            slope_pair.insert(i, slope);
            scores[at] = weight_pair;
            grads[at] = slope_pair;
        }
    }
}
