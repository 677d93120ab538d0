//! Linear maps through the backend's matrix products, over all positions at once. The bias gradient is summed in a
//! fixed order.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::columns;
use super::launch::{operand, product, rows_of};
use crate::kernel::extension::Maybe;

/// Reshapes a tensor to rows of its last dimension.
fn flat(x: CubeTensor) -> CubeTensor {
    let shape = Shape::from(rows_of(&x));
    CubeBackend::float_reshape(x, shape)
}

/// Returns a shape with another last dimension.
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

/// Number of rows and columns of the result that one cube of a product computes.
const TILE: usize = 128;

/// Minimum number of rows of a part.
const PART: usize = 256;

/// Returns `gradᵀ·x`. A small result keeps only few of a GPU's processors busy, however many rows are summed. So
/// several parts of the rows are multiplied at once and their results added in order.
pub fn weight_gradient(x: CubeTensor, grad: CubeTensor) -> CubeTensor {
    let (x, grad) = (flat(x), flat(grad));
    let ([rows, d_in], [_, d_out]) = (rows_of(&x), rows_of(&grad));
    let parts = parts(&x, rows, [d_in, d_out]);
    if parts == 1 {
        return product(CubeBackend::float_swap_dims(grad, 0, 1), x);
    }
    let [x, grad] = [(x, d_in), (grad, d_out)]
        .map(|(x, width)| CubeBackend::float_reshape(x, Shape::from([parts, rows / parts, width])));
    let each = product(CubeBackend::float_swap_dims(grad, 1, 2), x);
    let each = CubeBackend::float_reshape(each, Shape::from([parts, d_out * d_in]));
    CubeBackend::float_reshape(columns::sum(each), Shape::from([d_out, d_in]))
}

/// Returns how many parts of the rows, a power of two, keep the device's processors busy with a result of these
/// sizes.
fn parts(x: &CubeTensor, rows: usize, sizes: [usize; 2]) -> usize {
    let processors = x.client.properties().hardware.num_streaming_multiprocessors;
    let most = 2 * processors.unwrap_or(0) as usize;
    let cubes: usize = sizes.map(|size| size.div_ceil(TILE)).iter().product();
    let fits = |parts: &usize| {
        cubes * parts <= most && rows.is_multiple_of(*parts) && rows / parts >= PART
    };
    let doubled = std::iter::successors(Some(2), |parts| Some(parts * 2));
    doubled.take_while(fits).last().unwrap_or(1)
}

/// Returns the wanted gradients of input, weight and bias. If products round their operands, the gradient is rounded
/// once for both of them, in the same pass that computes the bias's sums.
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
