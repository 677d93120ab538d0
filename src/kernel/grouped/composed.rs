//! The grouped operations from plain tensor operations, for devices without kernels and as the reference for the
//! kernels.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::Groups;

/// Uploads indices as a tensor.
fn index_tensor(at: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let at: Vec<i32> = at.map(|at| at as i32).collect();
    let count = at.len();
    Tensor::from_data(TensorData::new(at, [count]), device)
}

/// Copies the vectors of tokens to rows, sorted by group.
pub fn gather(x: Tensor<2>, groups: &Groups) -> Tensor<2> {
    let tokens = (0..groups.rows()).map(|row| groups.token(row));
    let tokens = index_tensor(tokens, &x.device());
    x.select(0, tokens)
}

/// Computes `x·weightᵀ + bias` with each group's own parameters.
pub fn grouped_linear(
    x: Tensor<2>,
    weight: Tensor<3>,
    bias: Option<Tensor<2>>,
    groups: &Groups,
) -> Tensor<2> {
    let [_, d_out, d_in] = weight.dims();
    let with_rows = (0..groups.len()).filter(|group| !groups.rows_of(*group).is_empty());
    let products = with_rows.map(|group| {
        let rows = groups.rows_of(group);
        let matrix = weight.clone().narrow(0, group, 1).reshape([d_out, d_in]);
        let y = x.clone().narrow(0, rows.start, rows.len());
        let y = y.matmul(matrix.transpose());
        match &bias {
            Some(bias) => y + bias.clone().narrow(0, group, 1),
            None => y,
        }
    });
    Tensor::cat(products.collect(), 0)
}

/// Sums each token's rows, each multiplied by its weight.
pub fn combine(y: Tensor<2>, weights: Tensor<2>, groups: &Groups) -> Tensor<2> {
    let ([_, d], device) = (y.dims(), y.device());
    let (tokens, choices) = (groups.tokens(), groups.choices());
    let weights = weights.reshape([tokens * choices, 1]);
    let of_rows = index_tensor(groups.choice_of_rows().iter().copied(), &device);
    let rows = y * weights.select(0, of_rows);
    // A row of zeros stands in for choices that have no row.
    let zero = Tensor::<2>::zeros([1, d], (&device, rows.dtype()));
    let rows = Tensor::cat(vec![rows, zero], 0);
    let places = index_tensor(
        (0..tokens).flat_map(|token| {
            let of_token = groups.rows_of_token(token).iter();
            of_token.map(|row| row.unwrap_or(groups.rows()))
        }),
        &device,
    );
    let chosen = rows.select(0, places).reshape([tokens, choices, d]);
    chosen.sum_dim(1).reshape([tokens, d])
}
