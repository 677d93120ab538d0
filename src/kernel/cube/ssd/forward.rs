//! The forward pass.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::Problem;
use super::chunk::{
    Extent, Form, bring_decays, bring_steps, channels_at, directions_at, line_of, pairs_at,
    place_of, place_of_group, since, states_at, taken_of,
};
use crate::kernel::cube::chunks::Direction;
use crate::kernel::cube::launch::{contiguous, empty};
use crate::kernel::cube::square::{
    OWN, SIDE, SQUARE, add_product, bring, bring_weighed, own_column, own_row, scale, value_at,
    zeros,
};
use crate::kernel::extension::Maybe;
use crate::kernel::ssd::Sizes;

/// Computes c·b of the positions of each chunk, or b·b if `of_keys`, `[batch, chunks, groups, 32, 32]`.
#[cube(launch)]
fn scores(
    mixed: &[f32],
    codes: &[i32],
    out: &mut [f32],
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
    let place = place_of_group(cube, &extent, 1u32, form);
    let group = place.head / comptime!(form.per());
    let to = pairs_at(&place, group, &extent, form.groups);
    let taken = taken_of(codes, &place, &extent, form);
    let mut sums = zeros();
    for slice in 0..comptime!(form.slices()) {
        let read = comptime!(if of_keys { 0u32 } else { 1u32 });
        let c = directions_at(&place, taken, slice, &extent, read, form);
        let b = directions_at(&place, taken, slice, &extent, 0u32, form);
        bring(&mut left, mixed, &c);
        bring(&mut right, mixed, &b);
        sync_cube();
        add_product(&mut sums, &left, &right, false, true);
        sync_cube();
    }
    #[unroll]
    for i in 0..OWN {
        #[unroll]
        for j in 0..OWN {
            let within = own_row(i) * SIDE + own_column(j);
            out[(to.first + within) as usize] = sums[(i * OWN + j) as usize];
        }
    }
}

/// Computes the outputs of a chunk in a square of channels.
#[cube(launch)]
fn outputs(
    mixed: &[f32],
    raw: &[f32],
    decay: &[f32],
    skip: &[f32],
    codes: &[i32],
    scores: &[f32],
    states: &[f32],
    out: &mut [f32],
    extent: Extent,
    #[comptime] form: Form,
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
    let place = place_of(cube, &extent, form.heads, comptime!(form.tiles()));
    let taken = taken_of(codes, &place, &extent, form);
    bring_steps(
        &mut steps,
        &mut logarithms,
        raw,
        decay,
        codes,
        &place,
        &extent,
        form,
    );
    let mut sums = zeros();
    for slice in 0..comptime!(form.slices()) {
        let c = directions_at(&place, taken, slice, &extent, 1u32, form);
        bring(&mut left, mixed, &c);
        bring(&mut right, states, &states_at(&place, slice, &extent, form));
        sync_cube();
        add_product(&mut sums, &left, &right, false, false);
        sync_cube();
    }
    #[unroll]
    for i in 0..OWN {
        let kept = since(&logarithms, own_row(i));
        #[unroll]
        for j in 0..OWN {
            sums[(i * OWN + j) as usize] *= kept;
        }
    }
    bring_decays(&mut decays, &logarithms, false);
    let x = channels_at(&place, taken, &extent, comptime!(form.mixed()), form);
    bring(&mut right, mixed, &x);
    scale(&mut right, &steps);
    sync_cube();
    let group = place.head / comptime!(form.per());
    let pairs = pairs_at(&place, group, &extent, form.groups);
    bring_weighed(&mut left, &decays, scores, &pairs);
    sync_cube();
    add_product(&mut sums, &left, &right, false, false);
    let mut passes = 0.0f32;
    if comptime!(!form.is_given()) {
        passes = skip[place.head as usize];
    }
    let line = line_of(&place, &extent);
    let of_head = place.head * form.d_head + place.tile * SIDE;
    #[unroll]
    for i in 0..OWN {
        let row = own_row(i);
        #[unroll]
        for j in 0..OWN {
            let column = own_column(j);
            if place.chunk * SIDE + row < extent.seq && column < x.columns {
                let mut y = 0.0f32;
                if row < taken {
                    y = sums[(i * OWN + j) as usize] + passes * value_at(mixed, &x, row, column);
                }
                let to = (line + row) * comptime!(form.channels()) + of_head + column;
                out[to as usize] = y;
            }
        }
    }
}

impl Problem {
    /// Returns c·b of the positions of each chunk, or b·b if `of_keys`, shared by the heads of a group.
    pub fn scores(&self, of_keys: bool) -> CubeTensor {
        let (groups, side) = (self.sizes.groups, SIDE as usize);
        let work = self.all_chunks() * groups;
        let out = empty(&self.inputs.mixed, [work, side, side]);
        let (count, dim, extent) = self.squares(work);
        scores::launch(
            &out.client,
            count,
            dim,
            self.inputs.mixed.clone().into_buffer_arg(),
            self.codes.numbers.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            extent,
            self.form(),
            of_keys,
        );
        out
    }

    /// Writes the outputs of all positions, given the states before each chunk.
    pub fn outputs(&self, states: &CubeTensor, out: &CubeTensor) {
        let (inputs, form) = (&self.inputs, self.form());
        let work = self.all_chunks() * self.sizes.heads * form.tiles() as usize;
        let (count, dim, extent) = self.squares(work);
        outputs::launch(
            &out.client,
            count,
            dim,
            inputs.mixed.clone().into_buffer_arg(),
            inputs.raw.clone().into_buffer_arg(),
            inputs.decay.clone().into_buffer_arg(),
            inputs.skip.clone().into_buffer_arg(),
            self.codes.numbers.clone().into_buffer_arg(),
            self.scores(false).into_buffer_arg(),
            states.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            extent,
            form,
        );
    }
}

/// Returns the output, followed by the last states if they are requested, and the states before each chunk.
pub fn forward(
    problem: &Problem,
    state: Maybe<CubeBackend>,
    last: bool,
) -> (CubeTensor, CubeTensor) {
    let Sizes { batch, seq, n, .. } = problem.sizes;
    let (inputs, channels) = (&problem.inputs, problem.sizes.channels());
    let rows = batch * seq + if last { batch * n } else { 0 };
    let out = empty(&inputs.mixed, [rows, channels]);
    if rows * channels == 0 {
        return (out.clone(), out);
    }
    let [states, passed] = problem.ends(None);
    let state = state.into_option().map(contiguous);
    let how = Direction::forward(state.is_some(), last);
    problem.carry(&states, &passed, state, &out, how);
    problem.outputs(&states, &out);
    (out, states)
}
