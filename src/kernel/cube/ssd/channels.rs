//! The gradients of x, steps, decay and skip: one cube per chunk of a head.
//!
//! Let g be the gradient of y, S the state before the chunk, K the gradient of the state after it, M the decays
//! between positions, and e and f the decays since the chunk's beginning and up to its end. As on the CPU:
//!
//! ```text
//! P_ts = g_t·x_s                v_s = Σ_t (c_t·b_s)·M_ts·g_t + f_s·Kᵀ b_s
//! dx = Δ·v + skip·g             dΔ_s = x_s·v_s + a·d(Δa)_s
//! ```
//!
//! d(Δa) at r collects everything that passes over r. It is a separate sum for each r, so that no large sums cancel
//! if little remains: Σ_{s<r≤t} of P_ts·Δ_s·M_ts·(c_t·b_s), and Σ_{t≥r} of e_t·g_t·Sᵀc_t, and Σ_{s<r} of f_s·Δ_s
//! x_s·Kᵀb_s, and e_end·⟨K, S⟩.

use cubecl::prelude::*;

use super::chunk::{
    Extent, Form, Place, bring_decays, bring_steps, channels_at, directions_at, is_free, left_of,
    line_of, number_of, pairs_at, place_of, since, states_at, taken_of,
};
use crate::kernel::cube::chunks::sigmoid;
use crate::kernel::cube::launch::cube_sum;
use crate::kernel::cube::square::{
    OWN, Part, SIDE, SQUARE, UNITS, add_product, at, bring, bring_weighed, meeting, own_column,
    own_row, own_share, shares, value_at, zeros,
};

/// Adds the elementwise products of this unit's sums with a part of a matrix to its row sums.
#[cube]
fn add_rows(rows: &mut Array<f32>, sums: &Array<f32>, from: &[f32], part: &Part) {
    #[unroll]
    for i in 0..OWN {
        #[unroll]
        for j in 0..OWN {
            let value = value_at(from, part, own_row(i), own_column(j));
            rows[i as usize] += sums[(i * OWN + j) as usize] * value;
        }
    }
}

/// Returns zeros for this unit's rows.
#[cube]
fn no_rows() -> Array<f32> {
    let mut rows = Array::<f32>::new(comptime!(OWN as usize));
    #[unroll]
    for i in 0..comptime!(OWN as usize) {
        rows[i] = 0.0f32;
    }
    rows
}

/// Computes the gradients of a chunk of a head. `of_pairs` receives P_ts·Δ_s·M_ts, `[batch, chunks, heads, 32, 32]`.
/// `of_parameters` receives the sums over the chunk's positions: `[batch, chunks, heads]` of decay, followed by as
/// many of the skip.
#[cube(launch)]
pub fn of_channels(
    mixed: &[f32],
    raw: &[f32],
    decay: &[f32],
    skip: &[f32],
    codes: &[i32],
    grad: &[f32],
    states: &[f32],
    later: &[f32],
    scores: &[f32],
    of_mixed: &mut [f32],
    of_raw: &mut [f32],
    of_pairs: &mut [f32],
    of_parameters: &mut [f32],
    extent: Extent,
    #[comptime] form: Form,
    #[comptime] of_keys: bool,
) {
    let cube = CUBE_POS as u32;
    if cube >= extent.work {
        terminate!();
    }
    let mut left = Shared::<[f32]>::new_slice(SQUARE);
    let mut right = Shared::<[f32]>::new_slice(SQUARE);
    let mut decays = Shared::<[f32]>::new_slice(SQUARE);
    let mut steps = Shared::<[f32]>::new_slice(SIDE as usize);
    let mut logarithms = Shared::<[f32]>::new_slice(SIDE as usize);
    let own = place_of(cube, &extent, form.heads, 1u32);
    let taken = taken_of(codes, &own, &extent, form);
    bring_steps(
        &mut steps,
        &mut logarithms,
        raw,
        decay,
        codes,
        &own,
        &extent,
        form,
    );
    sync_cube();
    bring_decays(&mut decays, &logarithms, of_keys);
    let mut passes = 0.0f32;
    if comptime!(!form.is_given()) {
        passes = skip[own.head as usize];
    }
    let reads = comptime!(if of_keys { 0u32 } else { 1u32 });
    let group = own.head / comptime!(form.per());
    let pairs = pairs_at(&own, group, &extent, form.groups);
    // P; g_t·Sᵀc_t, f_s·x_s·Kᵀb_s and x_s·v_s summed over this unit's channels so far; and ⟨K, S⟩.
    let mut products = zeros();
    let mut read = no_rows();
    let mut written = no_rows();
    let mut met = no_rows();
    let mut of_end = 0.0f32;
    for tile in 0..comptime!(form.tiles()) {
        let place = Place {
            row: own.row,
            chunk: own.chunk,
            head: own.head,
            tile,
        };
        let g = channels_at(&place, taken, &extent, comptime!(form.channels()), form);
        let x = channels_at(&place, taken, &extent, comptime!(form.mixed()), form);
        bring(&mut left, grad, &g);
        bring(&mut right, mixed, &x);
        sync_cube();
        add_product(&mut products, &left, &right, false, true);
        sync_cube();
        let mut found = zeros();
        for slice in 0..comptime!(form.slices()) {
            let c = directions_at(&place, taken, slice, &extent, reads, form);
            bring(&mut left, mixed, &c);
            bring(&mut right, states, &states_at(&place, slice, &extent, form));
            sync_cube();
            add_product(&mut found, &left, &right, false, false);
            sync_cube();
        }
        add_rows(&mut read, &found, grad, &g);
        let mut v = zeros();
        if comptime!(!of_keys) {
            for slice in 0..comptime!(form.slices()) {
                let b = directions_at(&place, taken, slice, &extent, 0u32, form);
                let state = states_at(&place, slice, &extent, form);
                bring(&mut left, mixed, &b);
                bring(&mut right, later, &state);
                of_end += meeting(&right, states, &state);
                sync_cube();
                add_product(&mut v, &left, &right, false, false);
                sync_cube();
            }
            #[unroll]
            for i in 0..OWN {
                let kept = left_of(&logarithms, own_row(i));
                #[unroll]
                for j in 0..OWN {
                    v[(i * OWN + j) as usize] *= kept;
                }
            }
            add_rows(&mut written, &v, mixed, &x);
        }
        bring_weighed(&mut left, &decays, scores, &pairs);
        bring(&mut right, grad, &g);
        sync_cube();
        add_product(&mut v, &left, &right, true, false);
        sync_cube();
        add_rows(&mut met, &v, mixed, &x);
        if comptime!(!form.is_given()) {
            let line = line_of(&place, &extent);
            let of_head = place.head * form.d_head + tile * SIDE;
            #[unroll]
            for i in 0..OWN {
                let row = own_row(i);
                #[unroll]
                for j in 0..OWN {
                    let column = own_column(j);
                    if place.chunk * SIDE + row < extent.seq && column < x.columns {
                        let mut of_x = 0.0f32;
                        if row < taken {
                            let arrives = value_at(grad, &g, row, column);
                            let step = steps[row as usize];
                            of_x = v[(i * OWN + j) as usize] * step + passes * arrives;
                        }
                        let to = (line + row) * comptime!(form.mixed()) + of_head + column;
                        of_mixed[to as usize] = of_x;
                    }
                }
            }
        }
    }
    let mut of_skip = Shared::<[f32]>::new_slice(SIDE as usize);
    let to = pairs_at(&own, own.head, &extent, form.heads);
    #[unroll]
    for i in 0..OWN {
        let t = own_row(i);
        #[unroll]
        for j in 0..OWN {
            let s = own_column(j);
            let product = products[(i * OWN + j) as usize];
            let pair = product * steps[s as usize] * decays[at(t, s)];
            of_pairs[(to.first + t * SIDE + s) as usize] = pair;
            let over = pair * scores[(pairs.first + t * SIDE + s) as usize];
            left[at(t, s)] = select(s < t, over, 0.0f32);
            if s == t {
                of_skip[t as usize] = product;
            }
        }
        right[at(t, own_share())] = read[i as usize];
        right[at(t, own_share() + 8)] = written[i as usize];
        right[at(t, own_share() + 16)] = met[i as usize];
    }
    sync_cube();
    let mut room = Shared::<[f32]>::new_slice(UNITS);
    let ends = cube_sum(of_end, &mut room, comptime!(UNITS as u32)) * since(&logarithms, SIDE - 1);
    let unit = UNIT_POS;
    // e_t·g_t·Sᵀc_t and f_s·Δ_s x_s·Kᵀb_s, one position per unit.
    if unit < SIDE {
        room[unit as usize] = shares(&right, unit, 0u32) * since(&logarithms, unit);
        room[(unit + SIDE) as usize] = shares(&right, unit, 8u32) * steps[unit as usize];
        // What this and later positions read of what position `unit` has written.
        let mut sum = 0.0f32;
        for back in 0..SIDE {
            let t = SIDE - 1 - back;
            sum += left[at(t, unit)];
            left[at(t, unit)] = sum;
        }
    }
    sync_cube();
    let mut of_decay = 0.0f32;
    if unit < SIDE {
        let mut over = ends;
        for s in 0..unit {
            over += left[at(unit, s)] + room[(SIDE + s) as usize];
        }
        for t in unit..SIDE {
            over += room[t as usize];
        }
        let step = steps[unit as usize];
        of_decay = over * step;
        if own.chunk * SIDE + unit < extent.seq {
            let line = line_of(&own, &extent) + unit;
            let met = shares(&right, unit, 16u32);
            if comptime!(form.is_given()) {
                let place = line * comptime!(2 * form.heads) + own.head;
                of_raw[place as usize] = select(unit < taken, met, 0.0f32);
                of_raw[(place + form.heads) as usize] = select(unit < taken, over, 0.0f32);
            } else {
                let of_step = met + decay[own.head as usize] * over;
                let place = (line * form.heads + own.head) as usize;
                let mut slope = 0.0f32;
                if unit < taken && is_free(raw[place], &extent) {
                    slope = of_step * sigmoid(raw[place]);
                }
                of_raw[place] = slope;
            }
        }
    }
    if comptime!(!form.is_given()) {
        sync_cube();
        let decays_sum = cube_sum(of_decay, &mut room, comptime!(UNITS as u32));
        if unit == 0 {
            let mut skipped = 0.0f32;
            for t in 0..SIDE {
                skipped += of_skip[t as usize];
            }
            let line = number_of(&own, &extent) * comptime!(2 * form.heads);
            of_parameters[(line + own.head) as usize] = decays_sum;
            of_parameters[(line + form.heads + own.head) as usize] = skipped;
        }
    }
}
