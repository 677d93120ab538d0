//! The grouped operations as a Burn backend extension. Shapes are those of the public functions.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::Groups;
use crate::kernel::extension::Maybe;

/// The backward half, which is never dispatched.
pub trait GroupedBackwardOps: Backend {
    /// Gradient of x: each group's rows times its matrix.
    fn grouped_input_gradient(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        groups: &Groups,
    ) -> FloatTensor<Self>;
    /// `gradᵀ·x` over the rows of each group.
    fn grouped_weight_gradient(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        groups: &Groups,
    ) -> FloatTensor<Self>;
    /// Sums over the rows of each group.
    fn grouped_bias_gradient(grad: FloatTensor<Self>, groups: &Groups) -> FloatTensor<Self>;
    /// Gradients of the rows and of their weights.
    fn combined_backward(
        y: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        groups: &Groups,
    ) -> [FloatTensor<Self>; 2];
}

/// The operations.
#[backend_extension(Flex, Autodiff)]
pub trait GroupedOps: Backend {
    /// Tokens' vectors as rows.
    fn gathered(x: FloatTensor<Self>, groups: Groups) -> FloatTensor<Self>;

    /// Each group's rows times its matrix.
    fn grouped_affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        groups: Groups,
    ) -> FloatTensor<Self>;

    /// Each token's rows added up; without weights, with weights of one.
    fn combined(
        y: FloatTensor<Self>,
        #[extension_type] weights: Maybe<Self>,
        groups: Groups,
    ) -> FloatTensor<Self>;
}
