//! Recurrences as a Burn backend extension.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::RecurrenceSettings;
use crate::kernel::extension::Maybe;

/// Values of a recurrence's forward pass that its backward pass needs.
#[derive(Clone, Debug)]
pub struct RecurrenceSaved<B: Backend> {
    /// The output.
    pub out: FloatTensor<B>,
    /// The gates, `[batch, seq, gates·d]`.
    pub gates: FloatTensor<B>,
    /// c of an LSTM, or W_n h + b of a GRU, `[batch, seq, d]`.
    pub inner: Maybe<B>,
    /// Weight applied to the state.
    pub weight: FloatTensor<B>,
    /// Initial h.
    pub h: FloatTensor<B>,
    /// Initial c of an LSTM, or the bias of a GRU.
    pub extra: Maybe<B>,
}

/// Gradients of a recurrence's float arguments.
#[derive(Debug)]
pub struct RecurrenceGradients<B: Backend> {
    /// Gradient of the inputs' part of the gates.
    pub inputs: FloatTensor<B>,
    /// Gradient of the weight.
    pub weight: FloatTensor<B>,
    /// Gradient of the initial h.
    pub h: FloatTensor<B>,
    /// Gradient of the initial c or of the bias, if there is one.
    pub extra: Option<FloatTensor<B>>,
}

/// The backward half of the operation, which is never dispatched.
pub trait RecurrenceBackwardOps: Backend {
    /// Runs [`RecurrenceOps::recurrence`] and keeps what its backward pass needs.
    fn recurrence_saving(
        inputs: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        h: FloatTensor<Self>,
        extra: Maybe<Self>,
        settings: &RecurrenceSettings,
    ) -> RecurrenceSaved<Self>;
    /// Returns the gradients of a recurrence.
    fn recurrence_backward(
        saved: RecurrenceSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &RecurrenceSettings,
    ) -> RecurrenceGradients<Self>;
}

/// The forward half of the operation.
#[backend_extension(Flex, Autodiff)]
pub trait RecurrenceOps: Backend {
    /// Runs a recurrent cell over all positions. Returns the states `[batch·seq, d]`, followed by an LSTM's last c,
    /// `[batch, d]`, if the settings request it. `extra` is an LSTM's initial c or a GRU's bias.
    fn recurrence(
        inputs: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        h: FloatTensor<Self>,
        #[extension_type] extra: Maybe<Self>,
        settings: RecurrenceSettings,
    ) -> FloatTensor<Self>;
}
