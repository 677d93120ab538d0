//! The triangular systems of all chunks, solved at once. Let B_ts = (k_t·k_s)·M_ts for s before t, T = (I + B
//! diag(β))⁻¹, e and f the decays since a chunk's beginning and up to its end, S the state before a chunk and D the
//! gradient of the state after it. Then the corrections w and the gradients y of values are affine in the carried
//! states (Yang et al. 2024, arXiv:2406.06484, section 3):
//!
//! ```text
//! w = T V − T diag(e) K S          y = Tᵀ diag(β) G + Tᵀ diag(β f) K D,   G_s = Σ_{t≥s} (q_t·k_s)·M_ts·g_t
//! ```

use cubecl::prelude::*;

use crate::kernel::cube::square::{
    OWN, Part, SIDE, SQUARE, add_product, at, bring, bring_own, own_column, own_row, scale, weigh,
    zeros,
};
use crate::kernel::cube::ssd::chunk::{
    Extent, Form, Place, bring_decays, bring_steps, channels_at, directions_at, number_of,
    pairs_at, place_of, taken_of,
};
use crate::kernel::cube::ssd::states::factors;

/// Returns a square of a chunk's map from states to positions in `[batch, chunks, heads, 32, n]`.
#[cube]
pub fn map_at(place: &Place, slice: u32, extent: &Extent, #[comptime] form: Form) -> Part {
    let head = number_of(place, extent) * form.heads + place.head;
    Part {
        first: head * comptime!(SIDE * form.n) + slice * SIDE,
        distance: form.n.runtime(),
        rows: SIDE.runtime(),
        columns: min(form.n - slice * SIDE, SIDE),
    }
}

/// Computes the inverse of I + B diag(β) by substitution, one unit per column; `system` holds B below the diagonal.
#[cube]
fn invert(inverse: &mut Shared<[f32]>, system: &Shared<[f32]>, steps: &Shared<[f32]>) {
    let own = UNIT_POS;
    if own < SIDE {
        for t in 0..SIDE {
            let mut sum = select(t == own, 1.0f32, 0.0f32);
            for s in own..t {
                sum -= system[at(t, s)] * steps[s as usize] * inverse[at(s, own)];
            }
            inverse[at(t, own)] = sum;
        }
    }
}

/// Computes the state-independent part `given` `[batch·seq, channels]` and the state maps `maps` of one chunk of a
/// head. Forward this is for w, from values v with `width` elements per position after `behind` others; with `back`
/// it is for y, from the output gradient.
#[cube(launch)]
pub fn solved(
    inner: &[f32],
    beta: &[f32],
    decay: &[f32],
    codes: &[i32],
    values: &[f32],
    of_keys: &[f32],
    of_queries: &[f32],
    given: &mut [f32],
    maps: &mut [f32],
    extent: Extent,
    #[comptime] width: u32,
    #[comptime] behind: u32,
    #[comptime] form: Form,
    #[comptime] back: bool,
) {
    let cube = CUBE_POS as u32;
    if cube >= extent.work {
        terminate!();
    }
    let mut left = Shared::<[f32]>::new_slice(SQUARE);
    let mut right = Shared::<[f32]>::new_slice(SQUARE);
    let mut inverse = Shared::<[f32]>::new_slice(SQUARE);
    let mut steps = Shared::<[f32]>::new_slice(SIDE as usize);
    let mut held = Shared::<[f32]>::new_slice(SIDE as usize);
    let mut logarithms = Shared::<[f32]>::new_slice(SIDE as usize);
    let own = place_of(cube, &extent, form.heads, 1u32);
    let group = own.head / comptime!(form.per());
    let pairs = pairs_at(&own, group, &extent, form.groups);
    let taken = taken_of(codes, &own, &extent, form);
    bring_steps(
        &mut steps,
        &mut logarithms,
        beta,
        decay,
        codes,
        &own,
        &extent,
        form,
    );
    sync_cube();
    bring_decays(&mut left, &logarithms, true);
    if UNIT_POS < SIDE {
        held[UNIT_POS as usize] = steps[UNIT_POS as usize];
    }
    sync_cube();
    weigh(&mut left, of_keys, &pairs);
    sync_cube();
    invert(&mut inverse, &left, &steps);
    sync_cube();
    factors(&mut steps, &logarithms, comptime!(!back));
    sync_cube();
    for slice in 0..comptime!(form.slices()) {
        let keys = directions_at(&own, taken, slice, &extent, 0u32, form);
        bring(&mut right, inner, &keys);
        scale(&mut right, &steps);
        sync_cube();
        let mut sums = zeros();
        add_product(&mut sums, &inverse, &right, back, false);
        let to = map_at(&own, slice, &extent, form);
        #[unroll]
        for i in 0..OWN {
            #[unroll]
            for j in 0..OWN {
                let sum = sums[(i * OWN + j) as usize];
                let place = to.first + own_row(i) * to.distance + own_column(j);
                if own_column(j) < to.columns {
                    if comptime!(back) {
                        maps[place as usize] = sum;
                    } else {
                        maps[place as usize] = -sum;
                    }
                }
            }
        }
        sync_cube();
    }
    if comptime!(back) {
        bring_decays(&mut left, &logarithms, false);
        sync_cube();
        weigh(&mut left, of_queries, &pairs);
    }
    for tile in 0..comptime!(form.tiles()) {
        let place = Place {
            row: own.row,
            chunk: own.chunk,
            head: own.head,
            tile,
        };
        let from = channels_at(&place, taken, &extent, width, form);
        let from = Part {
            first: from.first + behind,
            distance: from.distance,
            rows: from.rows,
            columns: from.columns,
        };
        bring(&mut right, values, &from);
        sync_cube();
        if comptime!(back) {
            let mut arriving = zeros();
            add_product(&mut arriving, &left, &right, true, false);
            #[unroll]
            for i in 0..OWN {
                let step = held[own_row(i) as usize];
                #[unroll]
                for j in 0..OWN {
                    arriving[(i * OWN + j) as usize] *= step;
                }
            }
            sync_cube();
            bring_own(&mut right, &arriving);
            sync_cube();
        }
        let mut sums = zeros();
        add_product(&mut sums, &inverse, &right, back, false);
        let to = channels_at(&place, taken, &extent, comptime!(form.channels()), form);
        #[unroll]
        for i in 0..OWN {
            #[unroll]
            for j in 0..OWN {
                if own_row(i) < to.rows && own_column(j) < to.columns {
                    let place = to.first + own_row(i) * to.distance + own_column(j);
                    given[place as usize] = sums[(i * OWN + j) as usize];
                }
            }
        }
        sync_cube();
    }
}
