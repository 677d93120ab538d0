//! Linear maps through the backend's products, over all positions at once; their bias's gradient adds in one order.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::columns;
use super::launch::{operand, product, rows_of};
use crate::kernel::extension::Maybe;

/// A tensor as rows of its last dimension.
fn flat(x: CubeTensor) -> CubeTensor {
    let shape = Shape::from(rows_of(&x));
    CubeBackend::float_reshape(x, shape)
}

/// A tensor's shape with another last dimension.
fn with_last(shape: Shape, last: usize) -> Shape {
    let mut dims = shape.to_vec();
    if let Some(end) = dims.last_mut() {
        *end = last;
    }
    Shape::from(dims)
}

/// `x·weightᵀ + bias`.
pub fn forward(x: CubeTensor, weight: CubeTensor, bias: Maybe<CubeBackend>) -> CubeTensor {
    let d_out = weight.shape()[0];
    let shape = with_last(x.shape(), d_out);
    let weight = CubeBackend::float_swap_dims(weight, 0, 1);
    let y = product(flat(x), weight);
    let y = match bias {
        Maybe::Some(bias) => {
            let bias = CubeBackend::float_reshape(bias, Shape::from([1, d_out]));
            CubeBackend::float_add(y, bias)
        }
        Maybe::None => y,
    };
    CubeBackend::float_reshape(y, shape)
}

/// `grad·weight`.
pub fn input_gradient(grad: CubeTensor, weight: CubeTensor) -> CubeTensor {
    let shape = with_last(grad.shape(), weight.shape()[1]);
    let d_x = product(flat(grad), weight);
    CubeBackend::float_reshape(d_x, shape)
}

/// `gradᵀ·x`.
pub fn weight_gradient(x: CubeTensor, grad: CubeTensor) -> CubeTensor {
    let grad = CubeBackend::float_swap_dims(flat(grad), 0, 1);
    product(grad, flat(x))
}

/// The wanted gradients of input, weight and bias. A gradient whose products round it is rounded once for both of them, on the way
/// through which the bias's sums are made.
pub fn gradients(
    [x, weight]: [CubeTensor; 2],
    grad: CubeTensor,
    [of_x, of_weight, of_bias]: [bool; 3],
) -> [Option<CubeTensor>; 3] {
    let (grad, bias) = match of_bias {
        true => {
            let [grad, sum] = columns::summed_operand(grad);
            (grad, Some(sum))
        }
        false => (operand(grad), None),
    };
    let d_weight = of_weight.then(|| weight_gradient(x, grad.clone()));
    let d_x = of_x.then(|| input_gradient(grad, weight));
    [d_x, d_weight, bias]
}
