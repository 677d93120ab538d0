//! The dot product of each query's output with its gradient, which the softmax gradient needs (Dao et al. 2022,
//! appendix B.2).

use burn::backend::TensorMetadata;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{cube_sum, cubes, empty};
use super::strided::{Strides, start_of, with_strides};

#[cube(launch)]
fn row_products(
    out: &Tensor<f32>,
    grad: &Tensor<f32>,
    products: &mut [f32],
    of_out: Strides,
    of_grad: Strides,
    heads: u32,
    queries: u32,
    width: u32,
    #[comptime] units: u32,
) {
    let line = CUBE_POS as u32;
    if line >= products.len() as u32 {
        terminate!();
    }
    let (row, head, query) = (
        line / queries / heads,
        line / queries % heads,
        line % queries,
    );
    let out_at = start_of(&of_out, row, head, query);
    let grad_at = start_of(&of_grad, row, head, query);
    let mut shared = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let mut sum = 0.0f32;
    let mut column = UNIT_POS;
    while column < width {
        sum += out[(out_at + column) as usize] * grad[(grad_at + column) as usize];
        column += comptime!(units);
    }
    let sum = cube_sum(sum, &mut shared, units);
    if UNIT_POS == 0 {
        products[line as usize] = sum;
    }
}

/// Returns the dot products `[B, H, Q]` of outputs and gradients `[B, H, Q, D]`.
pub fn products_of(out: &CubeTensor, grad: &CubeTensor) -> CubeTensor {
    let [rows, heads, queries, width] = out.shape().dims();
    let products = empty(out, [rows, heads, queries]);
    let [(out, of_out), (grad, of_grad)] = [out, grad].map(with_strides);
    let (count, dim, units) = cubes(&out, rows * heads * queries, width);
    let client = out.client.clone();
    row_products::launch(
        &client,
        count,
        dim,
        out.into_tensor_arg(),
        grad.into_tensor_arg(),
        products.clone().into_buffer_arg(),
        of_out,
        of_grad,
        heads as u32,
        queries as u32,
        width as u32,
        units,
    );
    products
}
