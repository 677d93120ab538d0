//! RWKV's weighted average of [`crate::kernel::wkv`]: all chunks of positions at once, and the sums from chunk to
//! chunk. Sums are carried together with their exponent. So are their gradients, from later chunks to earlier ones.

mod backward;
mod forward;

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::chunks::{Codes, Direction, Extent, Place, Sizes, fits_indices};
use super::launch::{contiguous, units};
use crate::kernel::extension::Maybe;
use crate::kernel::wkv::extension::{WkvBackwardOps, WkvInputs, WkvOps, WkvSaved, WkvSettings};
use crate::kernel::wkv::{EMPTY_EXPONENT, STATE_VECTORS};

/// Marks a time in which nothing of earlier positions reaches the end of a chunk. Real times are negative.
const BEGUN: f32 = 1.0;

/// Returns whether the kernels support an average over this many rows, positions and channels: all sums must fit
/// 32-bit indices.
pub fn supports(dims: [usize; 3]) -> bool {
    fits_indices(dims, STATE_VECTORS)
}

/// Two sums with a common exponent: a·eᵖ and b·eᵖ.
#[derive(CubeType, Clone, Copy)]
struct Sums {
    a: f32,
    b: f32,
    p: f32,
}

/// Returns empty sums.
#[cube]
fn nothing() -> Sums {
    Sums {
        a: 0.0f32,
        b: 0.0f32,
        p: f32::new(EMPTY_EXPONENT),
    }
}

/// Adds two pairs of sums.
#[cube]
fn joined(x: &Sums, y: &Sums) -> Sums {
    let p = max(x.p, y.p);
    let (old, new) = ((x.p - p).exp(), (y.p - p).exp());
    Sums {
        a: old * x.a + new * y.a,
        b: old * x.b + new * y.b,
        p,
    }
}

/// Returns the sums before a position, decayed by one step, plus the position's own contribution.
#[cube]
fn advanced(x: &Sums, decay: f32, k: f32, v: f32) -> Sums {
    let later = Sums {
        a: x.a,
        b: x.b,
        p: x.p + decay,
    };
    joined(
        &later,
        &Sums {
            a: v,
            b: 1.0f32,
            p: k,
        },
    )
}

/// Returns the index of a part of a chunk's sums in `[batch, chunks, 3, channels]`.
#[cube]
fn kept_at(place: &Place, part: u32, extent: &Extent) -> usize {
    let line = (place.row * extent.chunks + place.chunk) * 3 + part;
    (line * extent.channels + place.channel) as usize
}

/// Loads a chunk's sums.
#[cube]
fn load(from: &[f32], place: &Place, extent: &Extent) -> Sums {
    Sums {
        a: from[kept_at(place, 0u32, extent)],
        b: from[kept_at(place, 1u32, extent)],
        p: from[kept_at(place, 2u32, extent)],
    }
}

/// Stores a chunk's sums.
#[cube]
fn store(sums: &Sums, to: &mut [f32], place: &Place, extent: &Extent) {
    to[kept_at(place, 0u32, extent)] = sums.a;
    to[kept_at(place, 1u32, extent)] = sums.b;
    to[kept_at(place, 2u32, extent)] = sums.p;
}

/// The inputs of both passes.
struct Problem {
    sizes: Sizes,
    inputs: WkvInputs<CubeTensor>,
    codes: Codes,
}

impl Problem {
    fn new(inputs: WkvInputs<CubeTensor>, settings: &WkvSettings) -> Self {
        let [batch, seq, channels] = inputs.k.shape().dims();
        let inputs = WkvInputs {
            r: contiguous(inputs.r),
            k: contiguous(inputs.k),
            v: contiguous(inputs.v),
            decay: contiguous(inputs.decay),
            bonus: contiguous(inputs.bonus),
        };
        let device = &inputs.k.device;
        Self {
            codes: Codes::of(&settings.sequences, [batch, seq], device),
            sizes: Sizes {
                batch,
                seq,
                channels,
            },
            inputs,
        }
    }

    /// Carries sums, or with a backward `how` their gradients, along the chunks. On entry, `sums` holds those of each
    /// chunk on its own; on return, those that reach it. The sums after the last chunk go into `out`, after the
    /// outputs, if requested.
    fn carry(
        &self,
        sums: &CubeTensor,
        passed: &CubeTensor,
        first: Option<CubeTensor>,
        out: &CubeTensor,
        how: Direction,
    ) {
        let work = self.sizes.batch * self.sizes.channels;
        let (cubes, dim) = units(sums, work);
        let first = first.unwrap_or_else(|| passed.clone());
        forward::carried::launch(
            &sums.client,
            cubes,
            dim,
            sums.clone().into_buffer_arg(),
            passed.clone().into_buffer_arg(),
            first.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            self.sizes.extent(work),
            self.sizes.results() as u32,
            how,
        );
    }
}

impl WkvOps for CubeBackend {
    fn wkv(
        r: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        decay: CubeTensor,
        first: CubeTensor,
        state: Maybe<Self>,
        settings: WkvSettings,
    ) -> CubeTensor {
        let inputs = WkvInputs {
            r,
            k,
            v,
            decay,
            bonus: first,
        };
        forward::forward(&Problem::new(inputs, &settings), state, settings.last).0
    }
}

impl WkvBackwardOps for CubeBackend {
    fn wkv_saving(
        inputs: WkvInputs<CubeTensor>,
        state: Maybe<Self>,
        settings: &WkvSettings,
    ) -> (CubeTensor, WkvSaved<Self>) {
        let problem = Problem::new(inputs, settings);
        let (out, states) = forward::forward(&problem, state, settings.last);
        let inputs = problem.inputs;
        (out, WkvSaved { inputs, states })
    }

    fn wkv_backward(
        saved: WkvSaved<Self>,
        grad: CubeTensor,
        settings: &WkvSettings,
    ) -> WkvInputs<CubeTensor> {
        backward::backward(&Problem::new(saved.inputs, settings), saved.states, grad)
    }
}
