//! Sorted chunks as a Burn backend extension.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::SortedSettings;

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct SortedSaved<B: Backend> {
    /// Queries, keys and values.
    pub inputs: [FloatTensor<B>; 3],
    /// The result.
    pub out: FloatTensor<B>,
    /// The largest score of each query, and the sum of the exponentials of its scores less that, `[B, H, T, 2]`.
    pub statistics: FloatTensor<B>,
}

/// The backward half, which is never dispatched.
pub trait SortedBackwardOps: Backend {
    /// The operation that also gives what its backward pass needs.
    fn sorted_attention_saving(
        inputs: [FloatTensor<Self>; 3],
        settings: &SortedSettings,
    ) -> SortedSaved<Self>;
    /// Gradients of queries, keys and values.
    fn sorted_attention_backward(
        saved: SortedSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &SortedSettings,
    ) -> [FloatTensor<Self>; 3];
}

/// The operation.
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
