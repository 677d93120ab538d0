//! Sorted chunks as a Burn backend extension.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::SortedSettings;

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct SortedSaved<B: Backend> {
    /// Queries, keys and values.
    pub inputs: [FloatTensor<B>; 3],
    /// The output.
    pub out: FloatTensor<B>,
    /// The largest score of each query, and the sum of the exponentials of its scores minus that, `[B, H, T, 2]`.
    pub statistics: FloatTensor<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait SortedBackwardOps: Backend {
    /// Runs the operation and keeps what its backward pass needs.
    fn sorted_attention_saving(
        inputs: [FloatTensor<Self>; 3],
        settings: &SortedSettings,
    ) -> SortedSaved<Self>;
    /// Returns the gradients of queries, keys and values.
    fn sorted_attention_backward(
        saved: SortedSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &SortedSettings,
    ) -> [FloatTensor<Self>; 3];
}

/// The forward half of the operation.
#[backend_extension(Flex, Autodiff)]
pub trait SortedOps: Backend {
    /// Attention in sorted chunks.
    fn sorted_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: SortedSettings,
    ) -> FloatTensor<Self>;
}
