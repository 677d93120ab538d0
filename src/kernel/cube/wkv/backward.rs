//! The backward pass. With A and B the sums before a position and D the denominator at it, g = dy·σ(r)/D. The
//! gradients of the sums are ∂A = Σ e^{..} g and ∂B = −Σ e^{..} g·wkv over the later positions.

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::forward::begun;
use super::{BEGUN, Problem, STATE_VECTORS, Sums, advanced, joined, load, nothing, store};
use crate::kernel::cube::chunks::{
    CHUNK, Direction, Extent, Place, Sizes, begins, is_taken, place_of, sigmoid, step_at,
};
use crate::kernel::cube::columns;
use crate::kernel::cube::launch::{contiguous, empty, empty_like, units};
use crate::kernel::wkv::extension::WkvInputs;

/// Returns the sums before each position of a chunk, three numbers each.
#[cube]
fn before_each(
    k: &[f32],
    v: &[f32],
    codes: &[i32],
    sums: &[f32],
    decay: f32,
    place: &Place,
    extent: &Extent,
    #[comptime] coded: bool,
) -> Array<f32> {
    let mut all = Array::<f32>::new(comptime!((CHUNK * 3) as usize));
    let mut own = load(sums, place, extent);
    for i in 0..CHUNK {
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, place, extent, coded);
        if is_taken(step) {
            let line = place.row * extent.seq + position;
            let at = (line * extent.channels + place.channel) as usize;
            let before = begun(&own, step);
            let to = (i * 3) as usize;
            all[to] = before.a;
            all[to + 1] = before.b;
            all[to + 2] = before.p;
            let next = advanced(&before, decay, k[at], v[at]);
            own.a = next.a;
            own.b = next.b;
            own.p = next.p;
        }
    }
    all
}

/// A position's output computation, recomputed from the sums before it.
#[derive(CubeType, Clone, Copy)]
struct Reading {
    /// The larger exponent: that of the sums, or the position's own.
    largest: f32,
    /// The position's own weight relative to `largest`.
    own: f32,
    /// σ(r).
    opened: f32,
    /// The weighted average.
    mean: f32,
    /// g, the output gradient times σ(r)/D.
    over: f32,
}

#[cube]
fn reading(before: &Sums, r: f32, p: f32, v: f32, grad: f32) -> Reading {
    let largest = max(before.p, p);
    let old = (before.p - largest).exp();
    let own = (p - largest).exp();
    let below = old * before.b + own;
    let opened = sigmoid(r);
    Reading {
        largest,
        own,
        opened,
        mean: (old * before.a + own * v) / below,
        over: grad * opened / below,
    }
}

/// Returns the gradients of the sums before a position, given those of the sums after it.
#[cube]
fn earlier(later: &Sums, read: &Reading, decay: f32, step: u32) -> Sums {
    let carried = Sums {
        a: later.a,
        b: later.b,
        p: later.p + decay,
    };
    let own = Sums {
        a: read.over,
        b: -read.over * read.mean,
        p: -read.largest,
    };
    begun(&joined(&carried, &own), step)
}

/// Computes each chunk's own contribution to the gradients of the sums before it, and the exponent by which the
/// gradients after it decay: [`BEGUN`] if they do not pass.
#[cube(launch)]
fn ends(
    r: &[f32],
    k: &[f32],
    v: &[f32],
    decay: &[f32],
    first: &[f32],
    codes: &[i32],
    grad: &[f32],
    sums: &[f32],
    later: &mut [f32],
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
    let first = first[place.channel as usize];
    let all = before_each(k, v, codes, sums, decay, &place, &extent, coded);
    let mut own = nothing();
    let mut time = 0.0f32;
    for back in 0..CHUNK {
        let i = CHUNK - 1 - back;
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, coded);
        if is_taken(step) {
            let line = place.row * extent.seq + position;
            let at = (line * extent.channels + place.channel) as usize;
            let from = (i * 3) as usize;
            let before = Sums {
                a: all[from],
                b: all[from + 1],
                p: all[from + 2],
            };
            let read = reading(&before, r[at], k[at] + first, v[at], grad[at]);
            let next = earlier(&own, &read, decay, step);
            own.a = next.a;
            own.b = next.b;
            own.p = next.p;
            let is_apart = begins(step) || time > 0.0f32;
            time = select(is_apart, f32::new(BEGUN), time + decay);
        }
    }
    store(&own, later, &place, &extent);
    passed[unit as usize] = time;
}

/// Computes the gradients of a chunk's positions. `of_parameters` receives their sums over the chunk:
/// `[batch, chunks, channels]` of decay, followed by as many of the bonus.
#[cube(launch)]
fn gradients(
    r: &[f32],
    k: &[f32],
    v: &[f32],
    decay: &[f32],
    first: &[f32],
    codes: &[i32],
    grad: &[f32],
    sums: &[f32],
    later: &[f32],
    of_r: &mut [f32],
    of_k: &mut [f32],
    of_v: &mut [f32],
    of_parameters: &mut [f32],
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
    let all = before_each(k, v, codes, sums, decay, &place, &extent, coded);
    let mut own = load(later, &place, &extent);
    let mut of_decay = 0.0f32;
    let mut of_first = 0.0f32;
    for back in 0..CHUNK {
        let i = CHUNK - 1 - back;
        let position = place.chunk * CHUNK + i;
        let step = step_at(codes, position, &place, &extent, coded);
        let line = place.row * extent.seq + position;
        let at = (line * extent.channels + place.channel) as usize;
        if is_taken(step) {
            let from = (i * 3) as usize;
            let before = Sums {
                a: all[from],
                b: all[from + 1],
                p: all[from + 2],
            };
            let value = v[at];
            let read = reading(&before, r[at], k[at] + first, value, grad[at]);
            let weight = read.over * read.own;
            let written = (k[at] + own.p).exp();
            let of_own = weight * (value - read.mean);
            of_k[at] = written * (own.a * value + own.b) + of_own;
            of_v[at] = written * own.a + weight;
            of_r[at] = grad[at] * read.mean * read.opened * (1.0f32 - read.opened);
            let kept = (decay + before.p + own.p).exp();
            of_decay += kept * (own.a * before.a + own.b * before.b);
            of_first += of_own;
            let next = earlier(&own, &read, decay, step);
            own.a = next.a;
            own.b = next.b;
            own.p = next.p;
        } else if position < extent.seq {
            of_r[at] = 0.0f32;
            of_k[at] = 0.0f32;
            of_v[at] = 0.0f32;
        }
    }
    let line = place.row * extent.chunks + place.chunk;
    let to = line * 2 * extent.channels + place.channel;
    of_parameters[to as usize] = of_decay;
    of_parameters[(to + extent.channels) as usize] = of_first;
}

/// Returns the gradients of all inputs; `sums` are those before each chunk.
pub fn backward(problem: &Problem, sums: CubeTensor, grad: CubeTensor) -> WkvInputs<CubeTensor> {
    let Problem {
        sizes,
        inputs,
        codes,
    } = problem;
    let Sizes {
        batch, channels, ..
    } = *sizes;
    let (beside, chunks, work) = (&inputs.k, sizes.chunks(), sizes.walks());
    let grad = contiguous(grad);
    let later = later(problem, &sums, &grad);
    let [of_r, of_k, of_v] = [0; 3].map(|_| empty_like(beside));
    let of_parameters = empty(beside, [batch * chunks, 2 * channels]);
    let (count, dim) = units(beside, work);
    gradients::launch(
        &beside.client,
        count,
        dim,
        inputs.r.clone().into_buffer_arg(),
        inputs.k.clone().into_buffer_arg(),
        inputs.v.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.bonus.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        grad.into_buffer_arg(),
        sums.into_buffer_arg(),
        later.into_buffer_arg(),
        of_r.clone().into_buffer_arg(),
        of_k.clone().into_buffer_arg(),
        of_v.clone().into_buffer_arg(),
        of_parameters.clone().into_buffer_arg(),
        sizes.extent(work),
        codes.read,
    );
    let of_parameters = columns::sum(of_parameters);
    let part = |from: usize| {
        CubeBackend::float_slice(of_parameters.clone(), &[(from..from + channels).into()])
    };
    WkvInputs {
        r: of_r,
        k: of_k,
        v: of_v,
        decay: part(0),
        bonus: part(channels),
    }
}

/// Returns the gradients of the sums after each chunk.
fn later(problem: &Problem, sums: &CubeTensor, grad: &CubeTensor) -> CubeTensor {
    let Problem {
        sizes,
        inputs,
        codes,
        ..
    } = problem;
    let (beside, work) = (&inputs.k, sizes.walks());
    let (batch, chunks, channels) = (sizes.batch, sizes.chunks(), sizes.channels);
    let later = empty(beside, [batch, chunks, STATE_VECTORS, channels]);
    let passed = empty(beside, [batch, chunks, channels]);
    let (count, dim) = units(beside, work);
    ends::launch(
        &beside.client,
        count,
        dim,
        inputs.r.clone().into_buffer_arg(),
        inputs.k.clone().into_buffer_arg(),
        inputs.v.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.bonus.clone().into_buffer_arg(),
        codes.numbers.clone().into_buffer_arg(),
        grad.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        later.clone().into_buffer_arg(),
        passed.clone().into_buffer_arg(),
        sizes.extent(work),
        codes.read,
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
