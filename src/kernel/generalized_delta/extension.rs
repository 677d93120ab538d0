//! The generalised delta rule as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// The parts of a generalised delta rule beside its tensors.
#[derive(Clone, Debug)]
pub struct GeneralizedDeltaSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
    /// Numbers of a head.
    pub n: usize,
}

/// The tensors of a generalised delta rule that gradients go to.
#[derive(Clone, Debug)]
pub struct GeneralizedDeltaInputs<T> {
    /// What states are read by.
    pub r: T,
    /// ln w.
    pub decay: T,
    /// Keys.
    pub k: T,
    /// Values.
    pub v: T,
    /// What states are asked for.
    pub a: T,
    /// What answers are added under.
    pub b: T,
}

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct GeneralizedDeltaSaved<B: Backend> {
    /// The tensors that gradients go to.
    pub inputs: GeneralizedDeltaInputs<FloatTensor<B>>,
    /// States before each chunk of positions, in the kernel's own order.
    pub states: FloatTensor<B>,
}

/// The backward half, which is never dispatched.
pub trait GeneralizedDeltaBackwardOps: Backend {
    /// [`GeneralizedDeltaOps::generalized_delta`] that also gives what its backward pass needs.
    fn generalized_delta_saving(
        inputs: GeneralizedDeltaInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &GeneralizedDeltaSettings,
    ) -> (FloatTensor<Self>, GeneralizedDeltaSaved<Self>);
    /// Gradients of a generalised delta rule.
    fn generalized_delta_backward(
        saved: GeneralizedDeltaSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &GeneralizedDeltaSettings,
    ) -> GeneralizedDeltaInputs<FloatTensor<Self>>;
}

/// The operation.
#[backend_extension(Flex, Autodiff)]
pub trait GeneralizedDeltaOps: Backend {
    /// Outputs `[batch·seq, channels]`, then `[batch·n, channels]` of the last states when the settings ask for them.
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
