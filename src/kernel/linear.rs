//! Linear maps as one matrix product over all positions, and the residual addition.

use burn::tensor::Tensor;

use super::composed;

/// `x·weight + bias`: x `[B, S, d_in]`, weight `[d_in, d_out]`, bias `[d_out]`, result `[B, S, d_out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    composed::linear(x, weight, bias)
}

/// `x·weightᵀ` with weight `[d_out, d_in]`: the head that shares the embedding's table.
pub fn linear_transposed(x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    composed::linear_transposed(x, weight)
}

/// `x + y` for two tensors `[B, S, D]`: the residual addition.
pub fn add(x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
    composed::add(x, y)
}
