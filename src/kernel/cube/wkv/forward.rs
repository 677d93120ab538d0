//! The forward pass.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{
    BEGUN, EMPTY_EXPONENT, Problem, STATE_VECTORS, Sums, advanced, joined, load, nothing, store,
};
use crate::kernel::cube::chunks::{
    CHUNK, Direction, Extent, Place, Sizes, begins, is_taken, place_of, sigmoid, step_at,
};
use crate::kernel::cube::launch::{contiguous, empty, units};
use crate::kernel::extension::Maybe;

/// Computes the sums of each chunk on its own, and the exponent by which earlier sums decay up to its end: [`BEGUN`]
/// if they do not reach it.
#[cube(launch)]
fn ends(
    k: &[f32],
    v: &[f32],
    decay: &[f32],
    codes: &[i32],
    sums: &mut [f32],
    passed: &mut [f32],
    extent: Extent,
    #[comptime] coded: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.units {
        terminate!();
    }
    let place = place_of(unit, &extent);
    let decay = decay[place.channel as usize];
    let mut own = nothing();
    let mut time = 0.0f32;
    for i in 0..CHUNK {
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, coded);
        if is_taken(step) {
            let line = place.row * extent.seq + position;
            let at = (line * extent.channels + place.channel) as usize;
            let before = begun(&own, step);
            let next = advanced(&before, decay, k[at], v[at]);
            own.a = next.a;
            own.b = next.b;
            own.p = next.p;
            let is_apart = begins(step) || time > 0.0f32;
            time = select(is_apart, f32::new(BEGUN), time + decay);
        }
    }
    store(&own, sums, &place, &extent);
    passed[unit as usize] = time;
}

/// Returns the sums as a step starts from them: empty if a sequence begins.
#[cube]
pub fn begun(sums: &Sums, step: u32) -> Sums {
    let anew = begins(step);
    Sums {
        a: select(anew, 0.0f32, sums.a),
        b: select(anew, 0.0f32, sums.b),
        p: select(anew, f32::new(EMPTY_EXPONENT), sums.p),
    }
}

/// Carries the sums of a channel from chunk to chunk.
#[cube(launch)]
pub fn carried(
    sums: &mut [f32],
    passed: &[f32],
    first: &[f32],
    out: &mut [f32],
    extent: Extent,
    behind: u32,
    #[comptime] how: Direction,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.units {
        terminate!();
    }
    let channel = unit % extent.channels;
    let row = unit / extent.channels;
    let mut own = nothing();
    let from = row * 3 * extent.channels + channel;
    if comptime!(how.given) {
        own.a = first[from as usize];
        own.b = first[(from + extent.channels) as usize];
        let p = first[(from + 2 * extent.channels) as usize];
        own.p = select(own.b == 0.0f32, f32::new(EMPTY_EXPONENT), p);
    }
    for i in 0..extent.chunks {
        let mut chunk = i;
        if comptime!(how.back) {
            chunk = extent.chunks - 1 - i;
        }
        let place = Place {
            row,
            chunk,
            channel,
        };
        let of_chunk = load(&*sums, &place, &extent);
        store(&own, sums, &place, &extent);
        let time = passed[((row * extent.chunks + chunk) * extent.channels + channel) as usize];
        let is_apart = time > 0.0f32;
        let reaching = Sums {
            a: select(is_apart, 0.0f32, own.a),
            b: select(is_apart, 0.0f32, own.b),
            p: select(is_apart, f32::new(EMPTY_EXPONENT), own.p + time),
        };
        let next = joined(&reaching, &of_chunk);
        own.a = next.a;
        own.b = next.b;
        own.p = next.p;
    }
    if comptime!(how.last) {
        let to = behind + from;
        out[to as usize] = own.a;
        out[(to + extent.channels) as usize] = own.b;
        let p = select(own.b == 0.0f32, 0.0f32, own.p);
        out[(to + 2 * extent.channels) as usize] = p;
    }
}

/// Computes the outputs of all positions of a chunk.
#[cube(launch)]
fn outputs(
    r: &[f32],
    k: &[f32],
    v: &[f32],
    decay: &[f32],
    first: &[f32],
    codes: &[i32],
    sums: &[f32],
    out: &mut [f32],
    extent: Extent,
    #[comptime] coded: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= extent.units {
        terminate!();
    }
    let place = place_of(unit, &extent);
    let decay = decay[place.channel as usize];
    let first = first[place.channel as usize];
    let mut own = load(sums, &place, &extent);
    for i in 0..CHUNK {
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, coded);
        let line = place.row * extent.seq + position;
        let at = (line * extent.channels + place.channel) as usize;
        if is_taken(step) {
            let before = begun(&own, step);
            let now = Sums {
                a: v[at],
                b: 1.0f32,
                p: k[at] + first,
            };
            let both = joined(&before, &now);
            out[at] = sigmoid(r[at]) * both.a / both.b;
            let next = advanced(&before, decay, k[at], v[at]);
            own.a = next.a;
            own.b = next.b;
            own.p = next.p;
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
        inputs,
        codes,
    } = problem;
    let Sizes {
        batch,
        seq,
        channels,
    } = *sizes;
    let beside = &inputs.k;
    let (work, chunks) = (sizes.walks(), sizes.chunks());
    let sums = empty(beside, [batch, chunks, STATE_VECTORS, channels]);
    let passed = empty(beside, [batch, chunks, channels]);
    let rows = batch * seq + if last { batch * STATE_VECTORS } else { 0 };
    let out = empty(beside, [rows, channels]);
    if rows * channels == 0 {
        return (out, sums);
    }
    let (cubes, dim) = units(beside, work);
    ends::launch(
        &beside.client,
        cubes.clone(),
        dim,
        inputs.k.clone().into_buffer_arg(),
        inputs.v.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        passed.clone().into_buffer_arg(),
        sizes.extent(work),
        codes.read,
    );
    let state = state.into_option().map(contiguous);
    let how = Direction::forward(state.is_some(), last);
    problem.carry(&sums, &passed, state, &out, how);
    outputs::launch(
        &beside.client,
        cubes,
        dim,
        inputs.r.clone().into_buffer_arg(),
        inputs.k.clone().into_buffer_arg(),
        inputs.v.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.bonus.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        out.clone().into_buffer_arg(),
        sizes.extent(work),
        codes.read,
    );
    (out, sums)
}
