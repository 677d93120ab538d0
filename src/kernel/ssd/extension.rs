//! The state space by heads as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// Settings of a state space other than its tensors.
#[derive(Clone, Debug)]
pub struct SsdSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
    /// Number of groups of heads.
    pub groups: usize,
    /// Number of rows of a head's state.
    pub n: usize,
    /// Minimum and maximum step.
    pub limits: Option<[f32; 2]>,
}

/// The tensors of a state space that receive gradients.
#[derive(Clone, Debug)]
pub struct SsdInputs<T> {
    /// The written values x, and the directions b and c in which states are written and read.
    pub mixed: T,
    /// Steps before their softplus.
    pub raw: T,
    /// Decay.
    pub decay: T,
    /// Factor of x that bypasses the states.
    pub skip: T,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct SsdSaved<B: Backend> {
    /// The tensors that receive gradients.
    pub inputs: SsdInputs<FloatTensor<B>>,
    /// The output, followed by the last states if they were requested.
    pub out: FloatTensor<B>,
    /// States before chunks of positions. On the CPU `[chunks, n·channels]`, only for chunks that have one; on a GPU
    /// `[batch·chunks, n, channels]`.
    pub states: FloatTensor<B>,
    /// Whether a state before the first position was given.
    pub carried: bool,
}

/// The backward half of the operation, which is never dispatched.
pub trait SsdBackwardOps: Backend {
    /// Runs [`SsdOps::ssd`] and keeps what its backward pass needs.
    fn ssd_saving(
        inputs: SsdInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &SsdSettings,
    ) -> SsdSaved<Self>;
    /// Returns the gradients of a state space.
    fn ssd_backward(
        saved: SsdSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &SsdSettings,
    ) -> SsdInputs<FloatTensor<Self>>;
}

/// The forward half of the operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait SsdOps: Backend {
    /// Returns the outputs `[batch·seq, channels]`, followed by the last states `[batch·n, channels]` if the settings
    /// request them.
    fn ssd(
        mixed: FloatTensor<Self>,
        raw: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        skip: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: SsdSettings,
    ) -> FloatTensor<Self>;
}
