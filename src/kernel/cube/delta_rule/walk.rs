//! States along a row, chunk by chunk. The corrections of a chunk depend on the state before it, and the gradients of
//! its values on that of the state after it. A cube handles one square of a head's channels; a unit reads only those
//! state elements that it wrote itself.

use cubecl::prelude::*;

use super::solve::map_at;
use crate::kernel::cube::chunks::Direction;
use crate::kernel::cube::square::{
    OWN, Part, SIDE, SQUARE, add_product, at, bring, bring_own, own_column, own_row, value_at,
    zeros,
};
use crate::kernel::cube::ssd::chunk::{
    Extent, Form, Place, bring_steps, channels_at, directions_at, line_of, since, state_at,
    states_at, taken_of,
};
use crate::kernel::cube::ssd::states::factors;

/// Returns this unit's elements of a part of a matrix.
#[cube]
fn own_of(from: &[f32], part: &Part) -> Array<f32> {
    let mut own = zeros();
    #[unroll]
    for i in 0..OWN {
        #[unroll]
        for j in 0..OWN {
            own[(i * OWN + j) as usize] = value_at(from, part, own_row(i), own_column(j));
        }
    }
    own
}

/// Writes this unit's elements of a part of a matrix.
#[cube]
fn write_own(to: &mut [f32], part: &Part, own: &Array<f32>) {
    #[unroll]
    for i in 0..OWN {
        #[unroll]
        for j in 0..OWN {
            if own_row(i) < part.rows && own_column(j) < part.columns {
                let place = part.first + own_row(i) * part.distance + own_column(j);
                to[place as usize] = own[(i * OWN + j) as usize];
            }
        }
    }
}

/// Scans along the chunks of a row. Forward, `states` receives the state before each chunk, the corrections go to
/// their places in `inner`, and the last state follows the outputs in `out`. With `back`, `states` receives the
/// gradient of the state after each chunk, to which `ends` contributes each chunk's own share; −y goes to `changes`,
/// and y to the places of values in `out`, the gradients of queries, keys and values.
#[cube(launch)]
pub fn walked(
    given: &[f32],
    maps: &[f32],
    beta: &[f32],
    decay: &[f32],
    codes: &[i32],
    first: &[f32],
    ends: &[f32],
    inner: &mut [f32],
    states: &mut [f32],
    changes: &mut [f32],
    out: &mut [f32],
    extent: Extent,
    behind: u32,
    #[comptime] form: Form,
    #[comptime] how: Direction,
) {
    let cube = CUBE_POS as u32;
    if cube >= extent.work {
        terminate!();
    }
    let mut left = Shared::<[f32]>::new_slice(SQUARE);
    let mut right = Shared::<[f32]>::new_slice(SQUARE);
    let mut steps = Shared::<[f32]>::new_slice(SIDE as usize);
    let mut logarithms = Shared::<[f32]>::new_slice(SIDE as usize);
    let tiles = comptime!(form.tiles());
    let row = cube / comptime!(form.heads * form.tiles());
    let head = cube / tiles % form.heads;
    let tile = cube % tiles;
    let mut chunk = 0u32;
    if comptime!(how.back) {
        chunk = extent.chunks - 1;
    }
    let begin = Place {
        row,
        chunk,
        head,
        tile,
    };
    for slice in 0..comptime!(form.slices()) {
        let mut own = zeros();
        if comptime!(how.given) {
            own = own_of(first, &state_at(row, &begin, slice, form));
        }
        write_own(states, &states_at(&begin, slice, &extent, form), &own);
    }
    for i in 0..extent.chunks {
        let mut chunk = i;
        let mut next = i + 1;
        if comptime!(how.back) {
            chunk = extent.chunks - 1 - i;
            next = chunk - 1;
        }
        let place = Place {
            row,
            chunk,
            head,
            tile,
        };
        let following = Place {
            row,
            chunk: next,
            head,
            tile,
        };
        let taken = taken_of(codes, &place, &extent, form);
        bring_steps(
            &mut steps,
            &mut logarithms,
            beta,
            decay,
            codes,
            &place,
            &extent,
            form,
        );
        sync_cube();
        let kept = since(&logarithms, SIDE - 1);
        factors(&mut steps, &logarithms, how.back);
        let mut values = zeros();
        for slice in 0..comptime!(form.slices()) {
            let state = own_of(&*states, &states_at(&place, slice, &extent, form));
            bring_own(&mut right, &state);
            bring(&mut left, maps, &map_at(&place, slice, &extent, form));
            sync_cube();
            add_product(&mut values, &left, &right, false, false);
            sync_cube();
        }
        let from = channels_at(&place, taken, &extent, comptime!(form.channels()), form);
        let line = line_of(&place, &extent);
        let of_head = head * form.d_head + tile * SIDE;
        #[unroll]
        for i in 0..OWN {
            let t = own_row(i);
            #[unroll]
            for j in 0..OWN {
                let p = own_column(j);
                let mut value = 0.0f32;
                if t < taken && p < from.columns {
                    let own = given[(from.first + t * from.distance + p) as usize];
                    value = values[(i * OWN + j) as usize] + own;
                }
                if chunk * SIDE + t < extent.seq && p < from.columns {
                    let mixed = (line + t) * comptime!(form.mixed()) + of_head + p;
                    if comptime!(how.back) {
                        let to = (line + t) * comptime!(form.channels()) + of_head + p;
                        changes[to as usize] = -value;
                        let others = comptime!(2 * form.groups * form.n);
                        out[(mixed + others) as usize] = value;
                    } else {
                        inner[mixed as usize] = value;
                    }
                }
                let mut moved = value * steps[t as usize];
                if comptime!(how.back) {
                    moved = -moved;
                }
                right[at(t, p)] = moved;
            }
        }
        for slice in 0..comptime!(form.slices()) {
            let keys = directions_at(&place, taken, slice, &extent, 0u32, form);
            bring(&mut left, &*inner, &keys);
            sync_cube();
            let mut sums = zeros();
            add_product(&mut sums, &left, &right, true, false);
            let part = states_at(&place, slice, &extent, form);
            let state = own_of(&*states, &part);
            let mut own = zeros();
            if comptime!(how.back) {
                own = own_of(ends, &part);
            }
            #[unroll]
            for k in 0..comptime!((OWN * OWN) as usize) {
                let before = select(kept == 0.0f32, 0.0f32, kept * state[k]);
                sums[k] += before + own[k];
            }
            if i + 1 < extent.chunks {
                write_own(states, &states_at(&following, slice, &extent, form), &sums);
            } else if comptime!(how.last) {
                let last = state_at(row, &place, slice, form);
                let last = Part {
                    first: last.first + behind,
                    distance: last.distance,
                    rows: last.rows,
                    columns: last.columns,
                };
                write_own(out, &last, &sums);
            }
            sync_cube();
        }
    }
}
