//! Recurrences as a Burn backend extension.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::RecurrenceSettings;
use crate::kernel::extension::Maybe;

/// The values that a recurrence's backward pass needs of its forward pass.
#[derive(Clone, Debug)]
pub struct RecurrenceSaved<B: Backend> {
    /// The result.
    pub out: FloatTensor<B>,
    /// Gates, `[batch, seq, gates·d]`.
    pub gates: FloatTensor<B>,
    /// An LSTM's c, a GRU's W_n h + b, `[batch, seq, d]`.
    pub inner: Maybe<B>,
    /// Weights onto the state.
    pub weight: FloatTensor<B>,
    /// The first h.
    pub h: FloatTensor<B>,
    /// An LSTM's first c, a GRU's bias.
    pub extra: Maybe<B>,
}

/// The gradients of a recurrence's float arguments.
#[derive(Debug)]
pub struct RecurrenceGradients<B: Backend> {
    /// Of the inputs' part of the gates.
    pub inputs: FloatTensor<B>,
    /// Of the weights.
    pub weight: FloatTensor<B>,
    /// Of the first h.
    pub h: FloatTensor<B>,
    /// Of the first c or of the bias, when there is one.
    pub extra: Option<FloatTensor<B>>,
}

/// The backward half, which is never dispatched.
pub trait RecurrenceBackwardOps: Backend {
    /// [`RecurrenceOps::recurrence`] that also gives what its backward pass needs.
    fn recurrence_saving(
        inputs: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        h: FloatTensor<Self>,
        extra: Maybe<Self>,
        settings: &RecurrenceSettings,
    ) -> RecurrenceSaved<Self>;
    /// Gradients of a recurrence.
    fn recurrence_backward(
        saved: RecurrenceSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &RecurrenceSettings,
    ) -> RecurrenceGradients<Self>;
}

/// The operation.
#[backend_extension(Flex, Autodiff)]
pub trait RecurrenceOps: Backend {
    /// A recurrent cell over all positions: `[batch·seq, d]` states, then `[batch, d]` of an LSTM's last c when the
    /// settings ask for it. `extra` is an LSTM's first c or a GRU's bias.
    fn recurrence(
        inputs: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        h: FloatTensor<Self>,
        #[extension_type] extra: Maybe<Self>,
        settings: RecurrenceSettings,
    ) -> FloatTensor<Self>;
}
