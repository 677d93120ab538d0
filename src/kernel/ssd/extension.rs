//! The state space by heads as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// The parts of a state space beside its tensors.
#[derive(Clone, Debug)]
pub struct SsdSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
    /// Groups of heads.
    pub groups: usize,
    /// Rows of a head's state.
    pub n: usize,
    /// The least and the largest step.
    pub limits: Option<[f32; 2]>,
}

/// The tensors of a state space that gradients go to.
#[derive(Clone, Debug)]
pub struct SsdInputs<T> {
    /// What is written, and the directions in which states are written and read.
    pub mixed: T,
    /// Steps before their softplus.
    pub raw: T,
    /// Decay.
    pub decay: T,
    /// The share that passes by.
    pub skip: T,
}

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct SsdSaved<B: Backend> {
    /// The tensors that gradients go to.
    pub inputs: SsdInputs<FloatTensor<B>>,
    /// The result.
    pub out: FloatTensor<B>,
    /// States before chunks of positions: `[chunks, n·channels]` of those that have one on the CPU, `[batch·chunks, n, channels]` on a GPU.
    pub states: FloatTensor<B>,
    /// Whether there was a state before the first position.
    pub carried: bool,
}

/// The backward half, which is never dispatched.
pub trait SsdBackwardOps: Backend {
    /// [`SsdOps::ssd`] that also gives what its backward pass needs.
    fn ssd_saving(
        inputs: SsdInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &SsdSettings,
    ) -> SsdSaved<Self>;
    /// Gradients of a state space.
    fn ssd_backward(
        saved: SsdSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &SsdSettings,
    ) -> SsdInputs<FloatTensor<Self>>;
}

/// The operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait SsdOps: Backend {
    /// Outputs `[batch·seq, channels]`, then `[batch·n, channels]` of the last states when the settings ask for them.
    fn ssd(
        mixed: FloatTensor<Self>,
        raw: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        skip: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: SsdSettings,
    ) -> FloatTensor<Self>;
}
