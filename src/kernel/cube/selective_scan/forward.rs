//! The forward pass.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{Form, Problem};
use crate::kernel::cube::chunks::{
    CHUNK, Direction, Extent, Place, Sizes, begins, is_taken, place_of, sigmoid, softplus, step_at,
};
use crate::kernel::cube::launch::{contiguous, empty, units};
use crate::kernel::extension::Maybe;

/// Returns a channel's decay.
#[cube]
pub fn decay_of(decay: &[f32], channel: u32, #[comptime] n: u32) -> Array<f32> {
    let mut own = Array::<f32>::new(comptime!(n as usize));
    #[unroll]
    for k in 0..n {
        own[k as usize] = decay[(channel * n + k) as usize];
    }
    own
}

/// Returns the offset of a channel's state in `[batch, chunks, n, channels]`; its elements are `channels` apart.
#[cube]
pub fn states_at(place: &Place, extent: &Extent, #[comptime] n: u32) -> u32 {
    (place.row * extent.chunks + place.chunk) * n * extent.channels + place.channel
}

/// Computes the state that each chunk ends with when it begins with zeros, and the time that passes in the chunk: −1
/// if no earlier state reaches its end.
#[cube(launch)]
fn ends(
    u: &[f32],
    raw: &[f32],
    decay: &[f32],
    directions: &[f32],
    codes: &[i32],
    states: &mut [f32],
    passed: &mut [f32],
    extent: Extent,
    #[comptime] form: Form,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.units {
        terminate!();
    }
    let place = place_of(unit, &extent);
    let a = decay_of(decay, place.channel, form.n);
    let mut h = Array::<f32>::new(comptime!(form.n as usize));
    #[unroll]
    for k in 0..comptime!(form.n as usize) {
        h[k] = 0.0f32;
    }
    let mut time = 0.0f32;
    for i in 0..CHUNK {
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, form.coded);
        if is_taken(step) {
            let line = place.row * extent.seq + position;
            let at = (line * extent.channels + place.channel) as usize;
            let delta = softplus(raw[at]);
            let written = delta * u[at];
            let of_b = line * comptime!(2 * form.n);
            #[unroll]
            for k in 0..comptime!(form.n) {
                let before = select(begins(step), 0.0f32, h[k as usize]);
                let kept = (delta * a[k as usize]).exp();
                h[k as usize] = kept * before + written * directions[(of_b + k) as usize];
            }
            time = select(begins(step) || time < 0.0f32, -1.0f32, time + delta);
        }
    }
    let to = states_at(&place, &extent, form.n);
    #[unroll]
    for k in 0..comptime!(form.n) {
        states[(to + k * extent.channels) as usize] = h[k as usize];
    }
    passed[unit as usize] = time;
}

/// Carries one element of a channel's state from chunk to chunk.
#[cube(launch)]
pub fn carried(
    states: &mut [f32],
    passed: &[f32],
    decay: &[f32],
    first: &[f32],
    out: &mut [f32],
    extent: Extent,
    behind: u32,
    #[comptime] n: u32,
    #[comptime] how: Direction,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.units {
        terminate!();
    }
    let channel = unit % extent.channels;
    let number = unit / extent.channels % n;
    let row = unit / extent.channels / n;
    let a = decay[(channel * n + number) as usize];
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
        let at = ((line * n + number) * extent.channels + channel) as usize;
        let time = passed[(line * extent.channels + channel) as usize];
        let end = states[at];
        states[at] = h;
        h = select(time < 0.0f32, end, (time * a).exp() * h + end);
    }
    if comptime!(how.last) {
        out[(behind + unit) as usize] = h;
    }
}

/// Computes the outputs of all positions of a chunk.
#[cube(launch)]
fn outputs(
    u: &[f32],
    raw: &[f32],
    gate: &[f32],
    decay: &[f32],
    directions: &[f32],
    skip: &[f32],
    codes: &[i32],
    states: &[f32],
    out: &mut [f32],
    extent: Extent,
    #[comptime] form: Form,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.units {
        terminate!();
    }
    let place = place_of(unit, &extent);
    let a = decay_of(decay, place.channel, form.n);
    let from = states_at(&place, &extent, form.n);
    let mut h = Array::<f32>::new(comptime!(form.n as usize));
    #[unroll]
    for k in 0..comptime!(form.n) {
        h[k as usize] = states[(from + k * extent.channels) as usize];
    }
    for i in 0..CHUNK {
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, form.coded);
        let line = place.row * extent.seq + position;
        let at = (line * extent.channels + place.channel) as usize;
        if is_taken(step) {
            let delta = softplus(raw[at]);
            let written = delta * u[at];
            let mut sum = skip[place.channel as usize] * u[at];
            let of_b = line * comptime!(2 * form.n);
            #[unroll]
            for k in 0..comptime!(form.n) {
                let before = select(begins(step), 0.0f32, h[k as usize]);
                let kept = (delta * a[k as usize]).exp();
                let next = kept * before + written * directions[(of_b + k) as usize];
                sum += next * directions[(of_b + comptime!(form.n + k)) as usize];
                h[k as usize] = next;
            }
            let opened = gate[at];
            out[at] = sum * opened * sigmoid(opened);
        } else if position < extent.seq {
            out[at] = 0.0f32;
        }
    }
}

/// Returns the output, followed by the last states if they are requested, and the states before each chunk.
pub fn forward(
    problem: &Problem,
    state: Maybe<CubeBackend>,
    last: bool,
) -> (CubeTensor, CubeTensor) {
    let Problem {
        sizes,
        n,
        ref inputs,
        ref codes,
    } = *problem;
    let Sizes {
        batch,
        seq,
        channels,
    } = sizes;
    let beside = &inputs.u;
    let (work, chunks) = (sizes.walks(), sizes.chunks());
    let states = empty(beside, [batch, chunks, n, channels]);
    let passed = empty(beside, [batch, chunks, channels]);
    let rows = batch * seq + if last { batch * n } else { 0 };
    let out = empty(beside, [rows, channels]);
    if rows * channels == 0 {
        return (out, states);
    }
    let (cubes, dim) = units(beside, work);
    ends::launch(
        &beside.client,
        cubes.clone(),
        dim,
        inputs.u.clone().into_buffer_arg(),
        inputs.raw.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.directions.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        states.clone().into_buffer_arg(),
        passed.clone().into_buffer_arg(),
        sizes.extent(work),
        problem.form(),
    );
    let state = state.into_option().map(contiguous);
    let how = Direction::forward(state.is_some(), last);
    problem.carry(&states, &passed, state, &out, how);
    outputs::launch(
        &beside.client,
        cubes,
        dim,
        inputs.u.clone().into_buffer_arg(),
        inputs.raw.clone().into_buffer_arg(),
        inputs.gate.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.directions.clone().into_buffer_arg(),
        inputs.skip.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        states.clone().into_buffer_arg(),
        out.clone().into_buffer_arg(),
        sizes.extent(work),
        problem.form(),
    );
    (out, states)
}
