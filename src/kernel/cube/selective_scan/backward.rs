//! The backward pass.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::forward::{decay_of, states_at};
use super::{Form, Problem};
use crate::kernel::cube::chunks::{
    CHUNK, Direction, Extent, Place, Sizes, TILE, begins, is_taken, place_in_tile, place_of,
    sigmoid, softplus, step_at,
};
use crate::kernel::cube::columns;
use crate::kernel::cube::launch::{contiguous, cubes, empty, empty_like, units};
use crate::kernel::selective_scan::extension::ScanInputs;

/// Computes each chunk's own contribution to the gradient of the state before it, and the time that passes in the
/// chunk: −1 if no earlier state reaches its end.
#[cube(launch)]
fn ends(
    raw: &[f32],
    gate: &[f32],
    decay: &[f32],
    directions: &[f32],
    codes: &[i32],
    grad: &[f32],
    later: &mut [f32],
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
    let mut of_h = Array::<f32>::new(comptime!(form.n as usize));
    #[unroll]
    for k in 0..comptime!(form.n as usize) {
        of_h[k] = 0.0f32;
    }
    let mut time = 0.0f32;
    for i in 0..CHUNK {
        let position = (place.chunk + 1) * CHUNK - 1 - i;
        let step = step_at(codes, position, &place, &extent, form.coded);
        if is_taken(step) {
            let line = place.row * extent.seq + position;
            let at = (line * extent.channels + place.channel) as usize;
            let delta = softplus(raw[at]);
            let of_sum = grad[at] * gate[at] * sigmoid(gate[at]);
            let of_c = line * comptime!(2 * form.n) + form.n;
            #[unroll]
            for k in 0..comptime!(form.n) {
                let own = of_h[k as usize] + of_sum * directions[(of_c + k) as usize];
                let kept = (delta * a[k as usize]).exp();
                of_h[k as usize] = select(begins(step), 0.0f32, own * kept);
            }
            time = select(begins(step) || time < 0.0f32, -1.0f32, time + delta);
        }
    }
    let to = states_at(&place, &extent, form.n);
    #[unroll]
    for k in 0..comptime!(form.n) {
        later[(to + k * extent.channels) as usize] = of_h[k as usize];
    }
    passed[unit as usize] = time;
}

/// Returns the states before each position of a chunk, `n` elements each; zeros where a sequence begins.
#[cube]
fn before_each(
    u: &[f32],
    raw: &[f32],
    directions: &[f32],
    codes: &[i32],
    states: &[f32],
    a: &Array<f32>,
    place: &Place,
    extent: &Extent,
    #[comptime] form: Form,
) -> Array<f32> {
    let mut all = Array::<f32>::new(comptime!((CHUNK * form.n) as usize));
    let mut h = Array::<f32>::new(comptime!(form.n as usize));
    let from = states_at(place, extent, form.n);
    #[unroll]
    for k in 0..comptime!(form.n) {
        h[k as usize] = states[(from + k * extent.channels) as usize];
    }
    for i in 0..CHUNK {
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, place, extent, form.coded);
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
                all[(i * form.n + k) as usize] = before;
                h[k as usize] = kept * before + written * directions[(of_b + k) as usize];
            }
        }
    }
    all
}

/// Computes the gradients of a chunk's positions, one cube for [`TILE`] channels. `of_directions` receives their sums
/// over these channels, `[tiles, batch, seq, 2n]`. `of_parameters` receives the sums over the chunk's positions,
/// `[batch, chunks, ..]`: `channels·n` elements of decay, then `channels` of the skip.
#[cube(launch)]
fn gradients(
    u: &[f32],
    raw: &[f32],
    gate: &[f32],
    decay: &[f32],
    directions: &[f32],
    skip: &[f32],
    codes: &[i32],
    grad: &[f32],
    states: &[f32],
    later: &[f32],
    of_u: &mut [f32],
    of_raw: &mut [f32],
    of_gate: &mut [f32],
    of_directions: &mut [f32],
    of_parameters: &mut [f32],
    extent: Extent,
    tiles: u32,
    lines: u32,
    #[comptime] form: Form,
) {
    let cube = CUBE_POS as u32;
    if cube >= extent.units {
        terminate!();
    }
    let mut shared = Shared::<[f32]>::new_slice(comptime!((2 * form.n * (TILE + 1)) as usize));
    let wanted = place_in_tile(cube, tiles, &extent);
    // A unit past the last channel reads the first one's numbers and writes none.
    let is_there = wanted.channel < extent.channels;
    let place = Place {
        row: wanted.row,
        chunk: wanted.chunk,
        channel: select(is_there, wanted.channel, 0u32),
    };
    let a = decay_of(decay, place.channel, form.n);
    let all = before_each(u, raw, directions, codes, states, &a, &place, &extent, form);
    let mut of_h = Array::<f32>::new(comptime!(form.n as usize));
    let mut of_a = Array::<f32>::new(comptime!(form.n as usize));
    let from = states_at(&place, &extent, form.n);
    #[unroll]
    for k in 0..comptime!(form.n) {
        of_h[k as usize] = later[(from + k * extent.channels) as usize];
        of_a[k as usize] = 0.0f32;
    }
    let passes = skip[place.channel as usize];
    let mut of_skip = 0.0f32;
    for back in 0..CHUNK {
        let i = CHUNK - 1 - back;
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, form.coded);
        let line = place.row * extent.seq + position;
        let at = (line * extent.channels + place.channel) as usize;
        #[unroll]
        for k in 0..comptime!(2 * form.n) {
            shared[(k * comptime!(TILE + 1) + UNIT_POS) as usize] = 0.0f32;
        }
        if is_taken(step) && is_there {
            let delta = softplus(raw[at]);
            let written = delta * u[at];
            let opened = sigmoid(gate[at]);
            let of_sum = grad[at] * gate[at] * opened;
            let of_b = line * comptime!(2 * form.n);
            let mut sum = passes * u[at];
            let mut of_delta = 0.0f32;
            let mut of_written = 0.0f32;
            #[unroll]
            for k in 0..comptime!(form.n) {
                let before = all[(i * form.n + k) as usize];
                let b = directions[(of_b + k) as usize];
                let c = directions[(of_b + comptime!(form.n + k)) as usize];
                let kept = (delta * a[k as usize]).exp();
                let h = kept * before + written * b;
                sum += h * c;
                let own = of_h[k as usize] + of_sum * c;
                shared[(k * comptime!(TILE + 1) + UNIT_POS) as usize] = own * written;
                shared[(comptime!((form.n + k) * (TILE + 1)) + UNIT_POS) as usize] = of_sum * h;
                of_written += own * b;
                let reaching = select(begins(step), 0.0f32, own * kept);
                of_h[k as usize] = reaching;
                let of_exponent = reaching * before;
                of_delta += of_exponent * a[k as usize];
                of_a[k as usize] += of_exponent * delta;
            }
            of_skip += of_sum * u[at];
            of_u[at] = of_written * delta + of_sum * passes;
            of_raw[at] = (of_delta + of_written * u[at]) * sigmoid(raw[at]);
            of_gate[at] = grad[at] * sum * opened * (1.0f32 + gate[at] * (1.0f32 - opened));
        } else if position < extent.seq && is_there {
            of_u[at] = 0.0f32;
            of_raw[at] = 0.0f32;
            of_gate[at] = 0.0f32;
        }
        sync_cube();
        if position < extent.seq {
            let to = (cube % tiles * lines + line) * comptime!(2 * form.n);
            let mut k = UNIT_POS;
            while k < comptime!(2 * form.n) {
                let mut total = 0.0f32;
                for unit in 0..TILE {
                    total += shared[(k * comptime!(TILE + 1) + unit) as usize];
                }
                of_directions[(to + k) as usize] = total;
                k += TILE;
            }
        }
        sync_cube();
    }
    if is_there {
        let line = place.row * extent.chunks + place.chunk;
        let to = line * extent.channels * comptime!(form.n + 1);
        #[unroll]
        for k in 0..comptime!(form.n) {
            of_parameters[(to + place.channel * form.n + k) as usize] = of_a[k as usize];
        }
        of_parameters[(to + extent.channels * form.n + place.channel) as usize] = of_skip;
    }
}

/// Returns the gradients of all inputs; `states` are those before each chunk.
pub fn backward(problem: &Problem, states: CubeTensor, grad: CubeTensor) -> ScanInputs<CubeTensor> {
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
    let (beside, chunks) = (&inputs.u, sizes.chunks());
    let grad = contiguous(grad);
    let later = later(problem, &grad);
    let tiles = channels.div_ceil(TILE as usize);
    let (lines, work) = (batch * seq, batch * chunks * tiles);
    let [of_u, of_raw, of_gate] = [0; 3].map(|_| empty_like(beside));
    let of_directions = empty(beside, [tiles, lines * 2 * n]);
    let of_parameters = empty(beside, [batch * chunks, channels * (n + 1)]);
    let (count, dim, _) = cubes(beside, work, TILE as usize);
    gradients::launch(
        &beside.client,
        count,
        dim,
        inputs.u.clone().into_buffer_arg(),
        inputs.raw.clone().into_buffer_arg(),
        inputs.gate.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.directions.clone().into_buffer_arg(),
        inputs.skip.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        grad.into_buffer_arg(),
        states.into_buffer_arg(),
        later.into_buffer_arg(),
        of_u.clone().into_buffer_arg(),
        of_raw.clone().into_buffer_arg(),
        of_gate.clone().into_buffer_arg(),
        of_directions.clone().into_buffer_arg(),
        of_parameters.clone().into_buffer_arg(),
        sizes.extent(work),
        tiles as u32,
        lines as u32,
        problem.form(),
    );
    let of_parameters = columns::sum(of_parameters);
    let part = |range: std::ops::Range<usize>, shape: Shape| {
        let part = CubeBackend::float_slice(of_parameters.clone(), &[range.into()]);
        CubeBackend::float_reshape(part, shape)
    };
    let of_directions = columns::sum(of_directions);
    ScanInputs {
        u: of_u,
        raw: of_raw,
        gate: of_gate,
        decay: part(0..channels * n, [channels, n].into()),
        directions: CubeBackend::float_reshape(of_directions, [batch, seq, 2 * n].into()),
        skip: part(channels * n..channels * (n + 1), [channels].into()),
    }
}

/// Returns the gradient of the states after each chunk.
fn later(problem: &Problem, grad: &CubeTensor) -> CubeTensor {
    let Problem {
        sizes,
        inputs,
        codes,
        ..
    } = problem;
    let (beside, work) = (&inputs.u, sizes.walks());
    let (batch, chunks, channels) = (sizes.batch, sizes.chunks(), sizes.channels);
    let later = empty(beside, [batch, chunks, problem.n, channels]);
    let passed = empty(beside, [batch, chunks, channels]);
    let (count, dim) = units(beside, work);
    ends::launch(
        &beside.client,
        count,
        dim,
        inputs.raw.clone().into_buffer_arg(),
        inputs.gate.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.directions.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        grad.clone().into_buffer_arg(),
        later.clone().into_buffer_arg(),
        passed.clone().into_buffer_arg(),
        sizes.extent(work),
        problem.form(),
    );
    problem.carry(
        &later,
        &passed,
        None,
        &empty(beside, [1]),
        Direction::backward(),
    );
    later
}
