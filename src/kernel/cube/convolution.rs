//! Convolution through the backend's own operations, forward and backward.

use burn::backend::TensorMetadata;
use burn::backend::ops::{FloatTensorOps, ModuleOps};
use burn::tensor::FloatDType;
use burn::tensor::Shape;
use burn::tensor::ops::ConvOptions;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use crate::kernel::ConvolutionSettings;

fn options(settings: ConvolutionSettings) -> ConvOptions<2> {
    ConvOptions::new([settings.stride; 2], [settings.padding; 2], [1, 1], 1)
}

/// 2-D convolution.
pub fn forward(x: CubeTensor, weight: CubeTensor, settings: ConvolutionSettings) -> CubeTensor {
    CubeBackend::conv2d(x, weight, None, options(settings))
}

/// Returns the gradient of the input. The backend reads only the input's shape.
pub fn input_gradient(
    weight: CubeTensor,
    grad: CubeTensor,
    input: [usize; 4],
    settings: ConvolutionSettings,
) -> CubeTensor {
    let x = CubeBackend::float_empty(Shape::from(input), &grad.device(), FloatDType::F32);
    CubeBackend::conv2d_x_backward(x, weight, grad, options(settings))
}

/// Returns the gradient of the weight. The backend reads only the weight's shape.
pub fn weight_gradient(
    x: CubeTensor,
    grad: CubeTensor,
    weight: [usize; 4],
    settings: ConvolutionSettings,
) -> CubeTensor {
    let weight = CubeBackend::float_empty(Shape::from(weight), &grad.device(), FloatDType::F32);
    CubeBackend::conv2d_weight_backward(x, weight, grad, options(settings))
}
