//! States from chunk to chunk: what each chunk leaves on its own, and what reaches it.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::Problem;
use super::chunk::{
    Extent, Form, bring_steps, channels_at, directions_at, left_of, number_of, place_of, since,
    states_at, taken_of,
};
use crate::kernel::cube::chunks::Direction;
use crate::kernel::cube::launch::{empty, units};
use crate::kernel::cube::square::{
    OWN, SIDE, SQUARE, add_product, bring, own_column, own_row, scale, zeros,
};
use crate::kernel::ssd::Sizes;

/// What each chunk leaves on its own, `[batch, chunks, n, channels]`, of a square of channels: the states that it ends with when it begins
/// with zeros, of b and x; with `back` the gradient of the states before it, of c and what arrives. `passed` gets how far states decay in it,
/// `[batch, chunks, heads]`. `values` have `width` numbers a position.
#[cube(launch)]
fn ends(
    mixed: &[f32],
    raw: &[f32],
    decay: &[f32],
    codes: &[i32],
    values: &[f32],
    states: &mut [f32],
    passed: &mut [f32],
    extent: Extent,
    #[comptime] width: u32,
    #[comptime] form: Form,
    #[comptime] back: bool,
) {
    let cube = CUBE_POS as u32;
    if cube >= extent.work {
        terminate!();
    }
    let mut left = Shared::<[f32]>::new_slice(SQUARE);
    let mut right = Shared::<[f32]>::new_slice(SQUARE);
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
    sync_cube();
    factors(&mut steps, &logarithms, back);
    if UNIT_POS == 0 && place.tile == 0 {
        let to = number_of(&place, &extent) * form.heads + place.head;
        passed[to as usize] = since(&logarithms, SIDE - 1);
    }
    sync_cube();
    bring(
        &mut right,
        values,
        &channels_at(&place, taken, &extent, width, form),
    );
    scale(&mut right, &steps);
    for slice in 0..comptime!(form.slices()) {
        let part = comptime!(if back { 1u32 } else { 0u32 });
        let directions = directions_at(&place, taken, slice, &extent, part, form);
        bring(&mut left, mixed, &directions);
        sync_cube();
        let mut sums = zeros();
        add_product(&mut sums, &left, &right, true, false);
        let to = states_at(&place, slice, &extent, form);
        #[unroll]
        for i in 0..OWN {
            #[unroll]
            for j in 0..OWN {
                if own_row(i) < to.rows && own_column(j) < to.columns {
                    let at = to.first + own_row(i) * to.distance + own_column(j);
                    states[at as usize] = sums[(i * OWN + j) as usize];
                }
            }
        }
        sync_cube();
    }
}

/// Puts in the place of steps what is left at the chunk's end of what they write; with `back` what is left at a position of the state
/// before the chunk.
#[cube]
pub fn factors(steps: &mut Shared<[f32]>, logarithms: &Shared<[f32]>, #[comptime] back: bool) {
    if UNIT_POS < SIDE {
        let step = steps[UNIT_POS as usize];
        if comptime!(back) {
            steps[UNIT_POS as usize] = since(logarithms, UNIT_POS);
        } else {
            steps[UNIT_POS as usize] = step * left_of(logarithms, UNIT_POS);
        }
    }
}

/// A number of a channel's state, from chunk to chunk.
#[cube(launch)]
fn carried(
    states: &mut [f32],
    passed: &[f32],
    first: &[f32],
    out: &mut [f32],
    extent: Extent,
    behind: u32,
    #[comptime] form: Form,
    #[comptime] how: Direction,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.work {
        terminate!();
    }
    let channels = comptime!(form.channels());
    let channel = unit % channels;
    let number = unit / channels % form.n;
    let row = unit / channels / form.n;
    let mut h = 0.0f32;
    if comptime!(how.given) {
        h = first[unit as usize];
    }
    for i in 0..extent.chunks {
        let mut chunk = i;
        if comptime!(how.back) {
            chunk = extent.chunks - 1 - i;
        }
        let line = row * extent.chunks + chunk;
        let at = ((line * form.n + number) * channels + channel) as usize;
        let kept = passed[(line * form.heads + channel / form.d_head) as usize];
        let end = states[at];
        states[at] = h;
        h = select(kept == 0.0f32, end, kept * h + end);
    }
    if comptime!(how.last) {
        out[(behind + unit) as usize] = h;
    }
}

impl Problem {
    /// What each chunk leaves on its own, and how far states decay in it: the states that it writes, or the gradient that arrives through
    /// `grad` at the one before it.
    pub fn ends(&self, grad: Option<&CubeTensor>) -> [CubeTensor; 2] {
        let Sizes { heads, n, .. } = self.sizes;
        let (inputs, form) = (&self.inputs, self.form());
        let chunks = self.all_chunks();
        let states = empty(&inputs.mixed, [chunks, n, self.sizes.channels()]);
        let passed = empty(&inputs.mixed, [chunks, heads]);
        let (values, width) = match grad {
            Some(grad) => (grad, form.channels()),
            None => (&inputs.mixed, form.mixed()),
        };
        let (count, dim, extent) = self.squares(chunks * heads * form.tiles() as usize);
        ends::launch(
            &states.client,
            count,
            dim,
            inputs.mixed.clone().into_buffer_arg(),
            inputs.raw.clone().into_buffer_arg(),
            inputs.decay.clone().into_buffer_arg(),
            self.codes.numbers.clone().into_buffer_arg(),
            values.clone().into_buffer_arg(),
            states.clone().into_buffer_arg(),
            passed.clone().into_buffer_arg(),
            extent,
            width,
            form,
            grad.is_some(),
        );
        [states, passed]
    }

    /// Carries states, or with `back` their gradients, along the chunks: `states` has what each chunk ends with on its own, and gets what
    /// reaches it. What is behind the last one goes into `out`, behind the results, if that is asked for.
    pub fn carry(
        &self,
        states: &CubeTensor,
        passed: &CubeTensor,
        first: Option<CubeTensor>,
        out: &CubeTensor,
        how: Direction,
    ) {
        let Sizes { batch, seq, n, .. } = self.sizes;
        let channels = self.sizes.channels();
        let work = batch * n * channels;
        let (count, dim) = units(states, work);
        let first = first.unwrap_or_else(|| passed.clone());
        carried::launch(
            &states.client,
            count,
            dim,
            states.clone().into_buffer_arg(),
            passed.clone().into_buffer_arg(),
            first.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            self.extent(work),
            (batch * seq * channels) as u32,
            self.form(),
            how,
        );
    }
}
