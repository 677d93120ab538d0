//! The gradients of b and c, as sums over the heads of a group in their order: one cube per chunk and square of
//! directions.
//!
//! ```text
//! W_ts = Σ_heads P_ts·Δ_s·M_ts      dc_t = Σ_s W_ts b_s + Σ_heads e_t·S g_t
//!                                   db_s = Σ_t W_ts c_t + Σ_heads f_s·K Δ_s x_s
//! ```

use cubecl::prelude::*;

use super::chunk::{
    Extent, Form, Place, bring_steps, channels_at, directions_at, pairs_at, place_of_group,
    states_at, taken_of,
};
use super::states::factors;
use crate::kernel::cube::square::{
    OWN, SIDE, SQUARE, add_product, bring, bring_gathered, gather, own_column, own_row, scale,
    zeros,
};

/// Computes the gradient of b, or with `of_c` of c. `values` are x or the output gradient, with `width` elements per
/// position. `states` are the gradients of the states after chunks, or the states before them; `of_pairs` are those
/// of each head.
#[cube(launch)]
pub fn of_directions(
    mixed: &[f32],
    raw: &[f32],
    decay: &[f32],
    codes: &[i32],
    values: &[f32],
    states: &[f32],
    of_pairs: &[f32],
    of_mixed: &mut [f32],
    extent: Extent,
    #[comptime] width: u32,
    #[comptime] form: Form,
    #[comptime] of_c: bool,
    #[comptime] of_keys: bool,
) {
    let cube = CUBE_POS as u32;
    if cube >= extent.work {
        terminate!();
    }
    let mut left = Shared::<[f32]>::new_slice(SQUARE);
    let mut right = Shared::<[f32]>::new_slice(SQUARE);
    let mut steps = Shared::<[f32]>::new_slice(SIDE as usize);
    let mut logarithms = Shared::<[f32]>::new_slice(SIDE as usize);
    let own = place_of_group(cube, &extent, comptime!(form.slices()), form);
    let slice = own.tile;
    let taken = taken_of(codes, &own, &extent, form);
    let mut pairs = zeros();
    let mut sums = zeros();
    for number in 0..comptime!(form.per()) {
        let head = own.head + number;
        let first = Place {
            row: own.row,
            chunk: own.chunk,
            head,
            tile: 0u32,
        };
        gather(
            &mut pairs,
            of_pairs,
            &pairs_at(&first, head, &extent, form.heads),
        );
        bring_steps(
            &mut steps,
            &mut logarithms,
            raw,
            decay,
            codes,
            &first,
            &extent,
            form,
        );
        sync_cube();
        factors(&mut steps, &logarithms, of_c);
        sync_cube();
        for tile in 0..comptime!(form.tiles()) {
            let place = Place {
                row: own.row,
                chunk: own.chunk,
                head,
                tile,
            };
            bring(
                &mut left,
                values,
                &channels_at(&place, taken, &extent, width, form),
            );
            scale(&mut left, &steps);
            bring(&mut right, states, &states_at(&place, slice, &extent, form));
            sync_cube();
            add_product(&mut sums, &left, &right, false, true);
            sync_cube();
        }
    }
    bring_gathered(&mut left, &pairs);
    let others = comptime!(if of_c { 0u32 } else { 1u32 });
    let others = directions_at(&own, taken, slice, &extent, others, form);
    bring(&mut right, mixed, &others);
    sync_cube();
    add_product(&mut sums, &left, &right, comptime!(!of_c), false);
    if comptime!(of_keys) {
        add_product(&mut sums, &left, &right, true, false);
    }
    let part = comptime!(if of_c && !of_keys { 1u32 } else { 0u32 });
    let to = directions_at(&own, taken, slice, &extent, part, form);
    #[unroll]
    for i in 0..OWN {
        let row = own_row(i);
        #[unroll]
        for j in 0..OWN {
            let column = own_column(j);
            if own.chunk * SIDE + row < extent.seq && column < to.columns {
                let mut sum = select(row < taken, sums[(i * OWN + j) as usize], 0.0f32);
                let place = (to.first + row * to.distance + column) as usize;
                if comptime!(of_keys) {
                    sum += of_mixed[place];
                }
                of_mixed[place] = sum;
            }
        }
    }
}
