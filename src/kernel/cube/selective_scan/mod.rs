//! The selective scan of [`crate::kernel::selective_scan`]: all chunks of positions at once, and the states from
//! chunk to chunk. The backward pass keeps the states before each chunk and scans a chunk's positions forward once
//! more; the gradient of the states is carried in the same way, from later chunks to earlier ones.

mod backward;
mod forward;

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::chunks::{Codes, Direction, Sizes, fits_indices};
use super::launch::{contiguous, units};
use crate::kernel::extension::Maybe;
use crate::kernel::selective_scan::extension::{
    ScanInputs, ScanSaved, ScanSettings, SelectiveScanBackwardOps, SelectiveScanOps,
};

/// Maximum number of elements of a channel's state that a unit holds.
const STATE: usize = 64;

/// Returns whether the kernels support a scan of this many rows, positions, channels and state elements: all states
/// must fit 32-bit indices.
pub fn supports([batch, seq, channels, n]: [usize; 4]) -> bool {
    n <= STATE && fits_indices([batch, seq, channels], n + 1)
}

/// Compile-time parameters of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    /// Number of elements of a channel's state.
    n: u32,
    /// Whether step codes are read.
    coded: bool,
}

/// The inputs of both passes.
struct Problem {
    sizes: Sizes,
    n: usize,
    inputs: ScanInputs<CubeTensor>,
    codes: Codes,
}

impl Problem {
    fn new(inputs: ScanInputs<CubeTensor>, settings: &ScanSettings) -> Self {
        let [batch, seq, channels] = inputs.u.shape().dims();
        let [_, n] = inputs.decay.shape().dims();
        let inputs = ScanInputs {
            u: contiguous(inputs.u),
            raw: contiguous(inputs.raw),
            gate: contiguous(inputs.gate),
            decay: contiguous(inputs.decay),
            directions: contiguous(inputs.directions),
            skip: contiguous(inputs.skip),
        };
        let device = &inputs.u.device;
        Self {
            codes: Codes::of(&settings.sequences, [batch, seq], device),
            sizes: Sizes {
                batch,
                seq,
                channels,
            },
            n,
            inputs,
        }
    }

    fn form(&self) -> Form {
        Form {
            n: self.n as u32,
            coded: self.codes.read,
        }
    }

    /// Carries states, or with a backward `how` their gradients, along the chunks. On entry, `states` holds the state
    /// that each chunk ends with on its own; on return, the state it begins with. The state after the last chunk goes
    /// into `out`, after the outputs, if requested.
    fn carry(
        &self,
        states: &CubeTensor,
        passed: &CubeTensor,
        first: Option<CubeTensor>,
        out: &CubeTensor,
        how: Direction,
    ) {
        let work = self.sizes.batch * self.n * self.sizes.channels;
        let (cubes, dim) = units(states, work);
        let first = first.unwrap_or_else(|| passed.clone());
        forward::carried::launch(
            &states.client,
            cubes,
            dim,
            states.clone().into_buffer_arg(),
            passed.clone().into_buffer_arg(),
            self.inputs.decay.clone().into_buffer_arg(),
            first.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            self.sizes.extent(work),
            self.sizes.results() as u32,
            self.n as u32,
            how,
        );
    }
}

impl SelectiveScanOps for CubeBackend {
    fn selective_scan(
        u: CubeTensor,
        raw: CubeTensor,
        gate: CubeTensor,
        decay: CubeTensor,
        directions: CubeTensor,
        skip: CubeTensor,
        state: Maybe<Self>,
        settings: ScanSettings,
    ) -> CubeTensor {
        let inputs = ScanInputs {
            u,
            raw,
            gate,
            decay,
            directions,
            skip,
        };
        forward::forward(&Problem::new(inputs, &settings), state, settings.last).0
    }
}

impl SelectiveScanBackwardOps for CubeBackend {
    fn selective_scan_saving(
        inputs: ScanInputs<CubeTensor>,
        state: Maybe<Self>,
        settings: &ScanSettings,
    ) -> (CubeTensor, ScanSaved<Self>) {
        let problem = Problem::new(inputs, settings);
        let (out, states) = forward::forward(&problem, state, settings.last);
        let inputs = problem.inputs;
        (out, ScanSaved { inputs, states })
    }

    fn selective_scan_backward(
        saved: ScanSaved<Self>,
        grad: CubeTensor,
        settings: &ScanSettings,
    ) -> ScanInputs<CubeTensor> {
        backward::backward(&Problem::new(saved.inputs, settings), saved.states, grad)
    }
}
