//! The gradients of attention in tiles (Dao et al. 2022, appendix B.4), from the log-sum-exps: one kernel takes a tile of queries
//! through the keys, one a tile of keys through the queries, so that nothing is added through atomics.

use burn::tensor::bf16;
use cubecl::prelude::*;

use super::forward::{of_keys, of_scores, of_values};
use super::product::{add_product, put, zeros};
use super::tile::{OWN, Read, SCORES, TILE, Tiles, WEIGHTS, load, own_block, own_column, write};
use crate::kernel::cube::laid::Strides;
use crate::kernel::cube::philox::{Drop, Wide, block_of, counter_of, factor_of, keyed};
use crate::kernel::cube::scores::{Factors, line_of, score_of};
use crate::kernel::cube::structure::{Place, Sizes, line_number, place_of, sees};

/// A query of a tile: where it stands, its log-sum-exp, and the product of its result with its gradient.
#[derive(CubeType, Clone, Copy)]
struct Query {
    place: Place,
    lse: f32,
    product: f32,
    /// Whether there is one.
    is_there: bool,
}

/// The query that this unit works on, of a tile whose first one is `first`; `line` is the head's first.
#[cube]
fn query_of(
    line: u32,
    first: u32,
    structure: &[i32],
    lse: &[f32],
    products: &[f32],
    sizes: &Sizes,
    #[comptime] t: Tiles,
) -> Query {
    let own = first + UNIT_POS / 2;
    let number = line + min(own, sizes.queries - 1);
    let place = place_of(number, structure, sizes, comptime!(t.form.rules));
    let at = line_number(&place, sizes) as usize;
    Query {
        place,
        lse: lse[at],
        product: products[at],
        is_there: own < sizes.queries,
    }
}

/// Makes the raw scores of a tile of queries and one of keys, and the gradients of their weights from those of the results; turns
/// them into dropped weights and gradients of raw scores, each unit its own.
#[cube]
fn turn(
    query: &Query,
    from: u32,
    queries: &Shared<[bf16]>,
    results: &Shared<[bf16]>,
    keys: &Shared<[bf16]>,
    values: &Shared<[bf16]>,
    scores: &mut Shared<[f32]>,
    grads: &mut Shared<[f32]>,
    weights: &mut Shared<[bf16]>,
    slopes: &mut Shared<[bf16]>,
    bias: &[f32],
    structure: &[i32],
    sizes: &Sizes,
    factors: &Factors,
    drop: &Drop,
    counter: &Wide,
    #[comptime] t: Tiles,
) {
    let form = comptime!(t.form);
    sync_cube();
    let mut sum = zeros(TILE);
    add_product(&mut sum, queries, keys, comptime!(of_scores(t)));
    put(&sum, scores, TILE, SCORES);
    let mut sum = zeros(TILE);
    add_product(&mut sum, results, values, comptime!(of_scores(t)));
    put(&sum, grads, TILE, SCORES);
    sync_cube();
    let words_at = line_of(&query.place, from, from + 1, sizes).first + UNIT_POS % 2 * 8;
    #[unroll]
    for number in 0..comptime!(OWN / 4) {
        let block = own_block(number);
        let words = block_of(drop, counter, words_at + block);
        #[unroll]
        for i in 0..4u32 {
            let column = own_column(block, i);
            let key = from + column;
            let at = (UNIT_POS / 2 * SCORES + column) as usize;
            let mut dropped = 0.0f32;
            let mut slope = 0.0f32;
            if query.is_there && sees(&query.place, key, structure, form.rules) {
                let score = score_of(scores[at], &query.place, key, bias, sizes, factors, form);
                let weight = (score.value - query.lse).exp();
                let mut factor = 1.0f32;
                if comptime!(form.drops) {
                    factor = factor_of(drop, &words, i);
                }
                dropped = weight * factor;
                slope = weight * (grads[at] * factor - query.product) * score.slope;
            }
            let at = (UNIT_POS / 2 * WEIGHTS + column) as usize;
            weights[at] = bf16::cast_from(dropped);
            slopes[at] = bf16::cast_from(slope);
        }
    }
    sync_cube();
}

/// The gradient of the queries.
#[cube(launch)]
pub fn query_gradient(
    q: &Tensor<Read>,
    k: &Tensor<Read>,
    v: &Tensor<Read>,
    grad: &Tensor<Read>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    lse: &[f32],
    products: &[f32],
    out: &mut Tensor<f32>,
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
    let form = comptime!(t.form);
    let tiles = (sizes.queries + TILE - 1) / TILE;
    let number = CUBE_POS as u32;
    if number >= sizes.lines / sizes.queries * tiles {
        terminate!();
    }
    let (row, head) = (number / tiles / sizes.heads, number / tiles % sizes.heads);
    let first = (tiles - 1 - number % tiles) * TILE;
    let line = number / tiles * sizes.queries;
    let last = min(first + TILE, sizes.queries) - 1;
    let begin = place_of(line + first, structure, &sizes, form.rules).start / TILE * TILE;
    let end = place_of(line + last, structure, &sizes, form.rules).end;
    let query = query_of(line, first, structure, lse, products, &sizes, t);
    let drop = keyed(&drop, table, form.replayed);
    let counter = counter_of(&drop, row);

    let mut queries = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut results = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut keys = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut values = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut scores = Shared::<[f32]>::new_slice(comptime!((TILE * t.results()) as usize));
    let mut grads = Shared::<[f32]>::new_slice(comptime!((TILE * SCORES) as usize));
    let mut weights = Shared::<[bf16]>::new_slice(comptime!((TILE * WEIGHTS) as usize));
    let mut slopes = Shared::<[bf16]>::new_slice(comptime!((TILE * WEIGHTS) as usize));
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

    let mut d_q = zeros(t.width);
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
        turn(
            &query,
            from,
            &queries,
            &results,
            &keys,
            &values,
            &mut scores,
            &mut grads,
            &mut weights,
            &mut slopes,
            bias,
            structure,
            &sizes,
            &factors,
            &drop,
            &counter,
            t,
        );
        add_product(&mut d_q, &slopes, &keys, comptime!(of_values(t)));
        sync_cube();
        from += TILE;
    }
    let count = sizes.queries;
    write(&d_q, &mut scores, out, &of_out, row, head, first, count, t);
}

/// The gradients of keys and values.
#[cube(launch)]
pub fn key_gradients(
    q: &Tensor<Read>,
    k: &Tensor<Read>,
    v: &Tensor<Read>,
    grad: &Tensor<Read>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    lse: &[f32],
    products: &[f32],
    out_k: &mut Tensor<f32>,
    out_v: &mut Tensor<f32>,
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
    let form = comptime!(t.form);
    let tiles = (sizes.keys + TILE - 1) / TILE;
    let kv_heads = sizes.heads / group;
    let number = CUBE_POS as u32;
    if number >= sizes.lines / sizes.queries / group * tiles {
        terminate!();
    }
    let (row, kv_head) = (number / tiles / kv_heads, number / tiles % kv_heads);
    let from = number % tiles * TILE;
    let drop = keyed(&drop, table, form.replayed);
    let counter = counter_of(&drop, row);

    let mut queries = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut results = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut keys = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut values = Shared::<[bf16]>::new_slice(comptime!(t.size()));
    let mut scores = Shared::<[f32]>::new_slice(comptime!((TILE * t.results()) as usize));
    let mut grads = Shared::<[f32]>::new_slice(comptime!((TILE * SCORES) as usize));
    let mut weights = Shared::<[bf16]>::new_slice(comptime!((TILE * WEIGHTS) as usize));
    let mut slopes = Shared::<[bf16]>::new_slice(comptime!((TILE * WEIGHTS) as usize));
    load(k, &mut keys, &of_k, row, kv_head, from, sizes.keys, t);
    load(v, &mut values, &of_v, row, kv_head, from, sizes.keys, t);

    let mut d_k = zeros(t.width);
    let mut d_v = zeros(t.width);
    for member in 0..group {
        let head = kv_head * group + member;
        let line = (row * sizes.heads + head) * sizes.queries;
        let mut first = 0u32;
        while first < sizes.queries {
            let last = min(first + TILE, sizes.queries) - 1;
            let begin = place_of(line + first, structure, &sizes, form.rules).start;
            let end = place_of(line + last, structure, &sizes, form.rules).end;
            if begin < from + TILE && end > from {
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
                let query = query_of(line, first, structure, lse, products, &sizes, t);
                turn(
                    &query,
                    from,
                    &queries,
                    &results,
                    &keys,
                    &values,
                    &mut scores,
                    &mut grads,
                    &mut weights,
                    &mut slopes,
                    bias,
                    structure,
                    &sizes,
                    &factors,
                    &drop,
                    &counter,
                    t,
                );
                add_product(&mut d_v, &weights, &results, comptime!(of_keys(t)));
                add_product(&mut d_k, &slopes, &queries, comptime!(of_keys(t)));
                sync_cube();
            }
            first += TILE;
        }
    }
    let count = sizes.keys;
    write(
        &d_k,
        &mut scores,
        out_k,
        &of_out,
        row,
        kv_head,
        from,
        count,
        t,
    );
    write(
        &d_v,
        &mut scores,
        out_v,
        &of_out,
        row,
        kv_head,
        from,
        count,
        t,
    );
}
