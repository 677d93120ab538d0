//! Dynamic tanh as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct DynamicTanhSaved<B: Backend> {
    /// The input.
    pub x: FloatTensor<B>,
    /// The factor of x.
    pub alpha: FloatTensor<B>,
    /// The scales gamma.
    pub gamma: FloatTensor<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait DynamicTanhBackwardOps: Backend {
    /// Returns the gradients of x, alpha, gamma and beta.
    fn dynamic_tanh_backward(
        saved: DynamicTanhSaved<Self>,
        grad: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 4];
}

/// The forward half of the operation.
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
