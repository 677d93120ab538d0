//! Dynamic tanh as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct Squashed<B: Backend> {
    /// The input.
    pub x: FloatTensor<B>,
    /// The number that it is multiplied by.
    pub alpha: FloatTensor<B>,
    /// The scales.
    pub gamma: FloatTensor<B>,
}

/// The backward half, which is never dispatched.
pub trait DynamicTanhBackwardOps: Backend {
    /// Gradients of x, alpha, gamma and beta.
    fn dynamic_tanh_backward(
        saved: Squashed<Self>,
        grad: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 4];
}

/// The operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait DynamicTanhOps: Backend {
    /// `gamma·tanh(alpha·x) + beta`.
    fn dynamic_tanh(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}
