//! RWKV's average as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// The parts of an average beside its tensors.
#[derive(Clone, Debug)]
pub struct WkvSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
}

/// The tensors of an average that gradients go to.
#[derive(Clone, Debug)]
pub struct Averaged<T> {
    /// Receptances before their sigmoid.
    pub r: T,
    /// Exponents of the weights.
    pub k: T,
    /// Values.
    pub v: T,
    /// What each position adds to earlier exponents.
    pub decay: T,
    /// What a position adds to its own exponent.
    pub first: T,
}

/// The values that an average's backward pass needs of its forward pass.
#[derive(Clone, Debug)]
pub struct WkvSaved<B: Backend> {
    /// The tensors that gradients go to.
    pub inputs: Averaged<FloatTensor<B>>,
    /// States before each chunk of positions, `[batch, chunks, 3, channels]`.
    pub states: FloatTensor<B>,
}

/// The backward half, which is never dispatched.
pub trait WkvBackwardOps: Backend {
    /// [`WkvOps::wkv`] that also gives what its backward pass needs.
    fn wkv_saving(
        inputs: Averaged<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &WkvSettings,
    ) -> (FloatTensor<Self>, WkvSaved<Self>);
    /// Gradients of an average.
    fn wkv_backward(
        saved: WkvSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &WkvSettings,
    ) -> Averaged<FloatTensor<Self>>;
}

/// The operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait WkvOps: Backend {
    /// Outputs `[batch·seq, channels]`, then `[batch·3, channels]` of the last states when the settings ask for them.
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
