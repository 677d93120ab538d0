//! The state space by heads of [`crate::kernel::ssd`]: chunks of [`SIDE`] positions at once, within which all is products of matrices, and
//! the states from chunk to chunk (Dao and Gu 2024, arXiv:2405.21060, section 6). The work is cut by rows, chunks, heads and squares of
//! their channels. The backward pass has the states before each chunk, and carries their gradient from later chunks to earlier ones.

mod backward;
mod channels;
mod chunk;
mod directions;
mod forward;
mod states;

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::chunks::Codes;
use super::launch::{contiguous, cubes};
use super::square::{SIDE, UNITS};
use crate::kernel::extension::Maybe;
use crate::kernel::ssd::Sizes;
use crate::kernel::ssd::extension::{SsdBackwardOps, SsdInputs, SsdOps, SsdSaved, SsdSettings};
use chunk::{ExtentLaunch, Form};
use cubecl::prelude::*;

/// Whether the kernels take a state space of these sizes: they count all its numbers in 32 bits, states and pairs of positions too.
pub fn takes(sizes: &Sizes) -> bool {
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

/// Everything that both passes read.
struct Problem {
    sizes: Sizes,
    inputs: SsdInputs<CubeTensor>,
    codes: Codes,
    limits: [f32; 2],
}

impl Problem {
    fn new(inputs: SsdInputs<CubeTensor>, settings: &SsdSettings) -> Self {
        let [heads] = inputs.decay.shape().dims();
        let sizes = Sizes::of(
            inputs.mixed.shape().dims(),
            heads,
            [settings.groups, settings.n],
        );
        let inputs = SsdInputs {
            mixed: contiguous(inputs.mixed),
            raw: contiguous(inputs.raw),
            decay: contiguous(inputs.decay),
            skip: contiguous(inputs.skip),
        };
        let device = &inputs.mixed.device;
        Self {
            codes: Codes::of(&settings.sequences, [sizes.batch, sizes.seq], device),
            limits: settings.limits.unwrap_or([0.0, f32::MAX]),
            sizes,
            inputs,
        }
    }

    fn form(&self) -> Form {
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
        }
    }

    /// Chunks of a row.
    fn chunks(&self) -> usize {
        self.sizes.seq.div_ceil(SIDE as usize)
    }

    /// Chunks of all rows.
    fn all_chunks(&self) -> usize {
        self.sizes.batch * self.chunks()
    }

    /// The sizes as an argument of a kernel in which so many cubes, or units, compute.
    fn extent(&self, work: usize) -> ExtentLaunch {
        let [seq, chunks, work] = [self.sizes.seq, self.chunks(), work].map(|x| x as u32);
        let [least, most] = self.limits;
        ExtentLaunch::new(seq, chunks, work, least, most)
    }

    /// Cubes for so many squares, and the sizes as an argument.
    fn squares(&self, work: usize) -> (CubeCount, CubeDim, ExtentLaunch) {
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
        forward::forward(&Problem::new(inputs, &settings), state, settings.last).0
    }
}

impl SsdBackwardOps for CubeBackend {
    fn ssd_saving(
        inputs: SsdInputs<CubeTensor>,
        state: Maybe<Self>,
        settings: &SsdSettings,
    ) -> SsdSaved<Self> {
        let problem = Problem::new(inputs, settings);
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
        backward::backward(&Problem::new(saved.inputs, settings), saved.states, grad)
    }
}
