//! A short convolution as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// Settings of a convolution other than its tensors.
#[derive(Clone, Debug)]
pub struct ShortConvolutionSettings {
    /// Where sequences begin.
    pub sequences: Sequences,
    /// Whether SiLU is applied to the result.
    pub silu: bool,
}

/// Values of a convolution's forward pass that its backward pass needs.
#[derive(Clone, Debug)]
pub struct ConvolutionSaved<B: Backend> {
    /// The input.
    pub x: FloatTensor<B>,
    /// The taps.
    pub weight: FloatTensor<B>,
    /// The bias.
    pub bias: FloatTensor<B>,
    /// The positions before the first one.
    pub before: Maybe<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait ShortConvolutionBackwardOps: Backend {
    /// Returns the gradients of input, weight and bias.
    fn short_convolution_backward(
        saved: ConvolutionSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &ShortConvolutionSettings,
    ) -> [FloatTensor<Self>; 3];
}

/// The forward half of the operation.
#[backend_extension(Flex, Autodiff)]
pub trait ShortConvolutionOps: Backend {
    /// A causal depthwise convolution.
    fn short_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        #[extension_type] before: Maybe<Self>,
        settings: ShortConvolutionSettings,
    ) -> FloatTensor<Self>;
}
