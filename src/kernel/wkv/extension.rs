//! RWKV's weighted average as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// Settings of an average other than its tensors.
#[derive(Clone, Debug)]
pub struct WkvSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
}

/// The tensors of an average that receive gradients.
#[derive(Clone, Debug)]
pub struct WkvInputs<T> {
    /// Receptances before their sigmoid.
    pub r: T,
    /// Exponents of the weights.
    pub k: T,
    /// Values.
    pub v: T,
    /// Added to earlier exponents at each position.
    pub decay: T,
    /// Added to a position's own exponent (the bonus).
    pub bonus: T,
}

/// Values of an average's forward pass that its backward pass needs.
#[derive(Clone, Debug)]
pub struct WkvSaved<B: Backend> {
    /// The tensors that receive gradients.
    pub inputs: WkvInputs<FloatTensor<B>>,
    /// States before each chunk of positions, `[batch, chunks, 3, channels]`.
    pub states: FloatTensor<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait WkvBackwardOps: Backend {
    /// Runs [`WkvOps::wkv`] and keeps what its backward pass needs.
    fn wkv_saving(
        inputs: WkvInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &WkvSettings,
    ) -> (FloatTensor<Self>, WkvSaved<Self>);
    /// Returns the gradients of an average.
    fn wkv_backward(
        saved: WkvSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &WkvSettings,
    ) -> WkvInputs<FloatTensor<Self>>;
}

/// The forward half of the operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait WkvOps: Backend {
    /// Returns the outputs `[batch·seq, channels]`, followed by the last states `[batch·3, channels]` if the settings
    /// request them.
    fn wkv(
        r: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        first: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: WkvSettings,
    ) -> FloatTensor<Self>;
}
