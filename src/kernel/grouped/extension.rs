//! The grouped operations as a Burn backend extension. Shapes are those of the public functions.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::Groups;
use crate::kernel::extension::Maybe;

/// The backward half of the operations, which is never dispatched.
pub trait GroupedBackwardOps: Backend {
    /// Returns the gradient of x: each group's gradient rows times its matrix.
    fn grouped_input_gradient(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        groups: &Groups,
    ) -> FloatTensor<Self>;
    /// Returns `gradᵀ·x` over the rows of each group.
    fn grouped_weight_gradient(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        groups: &Groups,
    ) -> FloatTensor<Self>;
    /// Returns the sums over the rows of each group.
    fn grouped_bias_gradient(grad: FloatTensor<Self>, groups: &Groups) -> FloatTensor<Self>;
    /// Returns the gradients of the rows and of their weights.
    fn combined_backward(
        y: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        groups: &Groups,
    ) -> [FloatTensor<Self>; 2];
}

/// The forward half of the operations.
#[backend_extension(Flex, Autodiff)]
pub trait GroupedOps: Backend {
    /// Copies the tokens' vectors to rows.
    fn gathered(x: FloatTensor<Self>, groups: Groups) -> FloatTensor<Self>;

    /// Multiplies each group's rows by its matrix.
    fn grouped_affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        groups: Groups,
    ) -> FloatTensor<Self>;

    /// Sums each token's rows; without weights, all weights are one.
    fn combined(
        y: FloatTensor<Self>,
        #[extension_type] weights: Maybe<Self>,
        groups: Groups,
    ) -> FloatTensor<Self>;
}
