//! States from chunk to chunk: each chunk's own contribution, and the state that reaches it.

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

/// Computes a chunk's own contribution to a square of channels, `[batch, chunks, n, channels]`. Forward this is the
/// state that it ends with when it begins with zeros, from b and x; with `back`, the gradient of the state before it,
/// from c and the output gradient. `passed` receives how far states decay in it, `[batch, chunks, heads]`. `values`
/// has `width` elements per position.
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

/// Replaces each step by `step·decay`, with the decay up to the chunk's end; with `back`, by the decay since the
/// chunk's beginning.
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

/// Carries one element of a channel's state from chunk to chunk.
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
    /// Returns each chunk's own contribution, and how far states decay in it. The contribution is the state that the
    /// chunk writes, or with `grad` the gradient of the state before it.
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

    /// Carries states, or with a backward `how` their gradients, along the chunks. On entry, `states` holds each
    /// chunk's own contribution; on return, the state that reaches it. The state after the last chunk goes into
    /// `out`, after the outputs, if requested.
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
