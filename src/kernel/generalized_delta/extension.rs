//! The generalised delta rule as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// Settings of a generalised delta rule other than its tensors.
#[derive(Clone, Debug)]
pub struct GeneralizedDeltaSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
    /// Width of a head.
    pub n: usize,
}

/// The tensors of a generalised delta rule that receive gradients.
#[derive(Clone, Debug)]
pub struct GeneralizedDeltaInputs<T> {
    /// r, with which states are read.
    pub r: T,
    /// ln w.
    pub decay: T,
    /// Keys.
    pub k: T,
    /// Values.
    pub v: T,
    /// a, for which states are queried.
    pub a: T,
    /// b, under which the results are added.
    pub b: T,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct GeneralizedDeltaSaved<B: Backend> {
    /// The tensors that receive gradients.
    pub inputs: GeneralizedDeltaInputs<FloatTensor<B>>,
    /// States before each chunk of positions, in the kernel's own layout.
    pub states: FloatTensor<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait GeneralizedDeltaBackwardOps: Backend {
    /// Runs [`GeneralizedDeltaOps::generalized_delta`] and keeps what its backward pass needs.
    fn generalized_delta_saving(
        inputs: GeneralizedDeltaInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &GeneralizedDeltaSettings,
    ) -> (FloatTensor<Self>, GeneralizedDeltaSaved<Self>);
    /// Returns the gradients of a generalised delta rule.
    fn generalized_delta_backward(
        saved: GeneralizedDeltaSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &GeneralizedDeltaSettings,
    ) -> GeneralizedDeltaInputs<FloatTensor<Self>>;
}

/// The forward half of the operation.
#[backend_extension(Flex, Autodiff)]
pub trait GeneralizedDeltaOps: Backend {
    /// Returns the outputs `[batch·seq, channels]`, followed by the last states `[batch·n, channels]` if the settings
    /// request them.
    #[allow(clippy::too_many_arguments)]
    fn generalized_delta(
        r: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: GeneralizedDeltaSettings,
    ) -> FloatTensor<Self>;
}
