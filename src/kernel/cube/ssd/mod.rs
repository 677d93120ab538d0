//! The state space by heads of [`crate::kernel::ssd`]: all chunks of [`SIDE`] positions at once, within which
//! everything is a matrix product, and the states from chunk to chunk (Dao and Gu 2024, arXiv:2405.21060, section 6).
//! The work is divided by rows, chunks, heads and squares of their channels. The backward pass keeps the states
//! before each chunk, and carries their gradient from later chunks to earlier ones.

mod backward;
mod channels;
pub mod chunk;
mod directions;
mod forward;
pub mod states;

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::chunks::Codes;
use super::launch::{contiguous, cubes};
use super::square::{SIDE, UNITS};
use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;
use crate::kernel::ssd::Sizes;
use crate::kernel::ssd::extension::{SsdBackwardOps, SsdInputs, SsdOps, SsdSaved, SsdSettings};
use chunk::ExtentLaunch;
use cubecl::prelude::*;

pub use backward::Reading;
pub use chunk::{Form, Gates};

/// Returns whether the kernels support a state space of these sizes: all of its elements, including states and pairs
/// of positions, must fit 32-bit indices.
pub fn supports(sizes: &Sizes) -> bool {
    let Sizes {
        batch,
        seq,
        heads,
        n,
        ..
    } = *sizes;
    let side = SIDE as usize;
    let numbers = [
        n.saturating_mul(sizes.channels()),
        heads.saturating_mul(side * side),
        sizes.mixed().saturating_mul(side),
    ];
    let most = numbers.into_iter().max().unwrap_or(0);
    // One more, for the last states.
    let chunks = batch.saturating_mul(seq.div_ceil(side) + 1);
    most.saturating_mul(chunks) <= u32::MAX as usize
}

/// The inputs of both passes.
pub struct Problem {
    /// The sizes.
    pub sizes: Sizes,
    /// The inputs.
    pub inputs: SsdInputs<CubeTensor>,
    /// The step codes of all positions.
    pub codes: Codes,
    limits: [f32; 2],
    gates: Gates,
}

impl Problem {
    /// Wraps contiguous inputs, with steps without limits.
    pub fn new(
        sizes: Sizes,
        inputs: SsdInputs<CubeTensor>,
        sequences: &Sequences,
        gates: Gates,
    ) -> Self {
        let device = &inputs.mixed.device;
        Self {
            codes: Codes::of(sequences, [sizes.batch, sizes.seq], device),
            limits: [0.0, f32::MAX],
            sizes,
            inputs,
            gates,
        }
    }

    fn of(inputs: SsdInputs<CubeTensor>, settings: &SsdSettings) -> Self {
        let [heads] = inputs.decay.shape().dims();
        let mixed = inputs.mixed.shape().dims();
        let sizes = Sizes::from_input(mixed, heads, [settings.groups, settings.n]);
        let inputs = SsdInputs {
            mixed: contiguous(inputs.mixed),
            raw: contiguous(inputs.raw),
            decay: contiguous(inputs.decay),
            skip: contiguous(inputs.skip),
        };
        let own = Self::new(sizes, inputs, &settings.sequences, Gates::Softplus);
        let limits = settings.limits.unwrap_or(own.limits);
        Self { limits, ..own }
    }

    /// Returns the compile-time parameters of the kernels.
    pub fn form(&self) -> Form {
        let Sizes {
            heads,
            d_head,
            groups,
            n,
            ..
        } = self.sizes;
        let [heads, d_head, groups, n] = [heads, d_head, groups, n].map(|x| x as u32);
        Form {
            heads,
            d_head,
            groups,
            n,
            coded: self.codes.read,
            gates: self.gates,
        }
    }

    /// Returns the number of chunks of a row.
    fn chunks(&self) -> usize {
        self.sizes.seq.div_ceil(SIDE as usize)
    }

    /// Returns the number of chunks of all rows.
    pub fn all_chunks(&self) -> usize {
        self.sizes.batch * self.chunks()
    }

    /// Converts the sizes to a kernel argument for a launch of `work` working cubes or units.
    fn extent(&self, work: usize) -> ExtentLaunch {
        let [seq, chunks, work] = [self.sizes.seq, self.chunks(), work].map(|x| x as u32);
        let [least, most] = self.limits;
        ExtentLaunch::new(seq, chunks, work, least, most)
    }

    /// Returns the cube count and size for `work` squares, and the sizes as a kernel argument.
    pub fn squares(&self, work: usize) -> (CubeCount, CubeDim, ExtentLaunch) {
        let (count, dim, _) = cubes(&self.inputs.mixed, work, UNITS);
        (count, dim, self.extent(work))
    }
}

impl SsdOps for CubeBackend {
    fn ssd(
        mixed: CubeTensor,
        raw: CubeTensor,
        decay: CubeTensor,
        skip: CubeTensor,
        state: Maybe<Self>,
        settings: SsdSettings,
    ) -> CubeTensor {
        let inputs = SsdInputs {
            mixed,
            raw,
            decay,
            skip,
        };
        forward::forward(&Problem::of(inputs, &settings), state, settings.last).0
    }
}

impl SsdBackwardOps for CubeBackend {
    fn ssd_saving(
        inputs: SsdInputs<CubeTensor>,
        state: Maybe<Self>,
        settings: &SsdSettings,
    ) -> SsdSaved<Self> {
        let problem = Problem::of(inputs, settings);
        let carried = matches!(state, Maybe::Some(_));
        let (out, states) = forward::forward(&problem, state, settings.last);
        SsdSaved {
            inputs: problem.inputs,
            out,
            states,
            carried,
        }
    }

    fn ssd_backward(
        saved: SsdSaved<Self>,
        grad: CubeTensor,
        settings: &SsdSettings,
    ) -> SsdInputs<CubeTensor> {
        backward::backward(&Problem::of(saved.inputs, settings), saved.states, grad)
    }
}
