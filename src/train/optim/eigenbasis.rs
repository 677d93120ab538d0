//! The eigenvectors of a symmetric preconditioner: computed in full at first, then updated by one round of orthogonal
//! iteration at a time, as in SOAP (Vyas et al. 2024, algorithm 4): Q ← the orthogonal factor of AQ, with columns in
//! descending order of qᵀAq. Computed on the host, in double precision.

use crate::kernel;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use nalgebra::{DMatrix, SymmetricEigen};

/// Maximum number of iterations of the decomposition per row; a few are enough.
const ROUNDS: usize = 100;

/// Returns the eigenvectors of a symmetric matrix, one per column, in descending order of eigenvalues. Returns the
/// identity if the matrix is not finite: its step is not taken.
pub(super) fn eigenvectors(matrix: Tensor<2>) -> Tensor<2> {
    let device = matrix.device();
    let [n, _] = matrix.dims();
    let values = numbers(matrix);
    let finite = values.iter().all(|x| x.is_finite());
    let matrix = DMatrix::from_row_slice(n, n, &values);
    let eigen = match finite {
        true => SymmetricEigen::try_new(matrix, f64::EPSILON, ROUNDS.saturating_mul(n)),
        false => None,
    };
    let vectors = match eigen {
        Some(eigen) => {
            let order = descending_order(eigen.eigenvalues.as_slice());
            let vectors = &eigen.eigenvectors;
            DMatrix::from_fn(n, n, |row, column| vectors[(row, order[column])])
        }
        None => DMatrix::identity(n, n),
    };
    tensor(&vectors, &device)
}

/// Updates a basis of a symmetric matrix by one round. Returns the new basis and the order in which it takes the old
/// basis's columns.
pub(super) fn power_iteration(
    matrix: &Tensor<2>,
    basis: &Tensor<2>,
) -> (Tensor<2>, Tensor<1, Int>) {
    let device = matrix.device();
    let [n, _] = matrix.dims();
    let product = matrix.clone().matmul(basis.clone());
    let estimates = numbers((basis.clone() * product.clone()).sum_dim(0));
    let values = numbers(product);
    if !values.iter().chain(&estimates).all(|x| x.is_finite()) {
        let order: Vec<usize> = (0..n).collect();
        return (basis.clone(), places(&order, &device));
    }
    let order = descending_order(&estimates);
    let sorted = DMatrix::from_fn(n, n, |row, column| values[row * n + order[column]]);
    (tensor(&sorted.qr().q(), &device), places(&order, &device))
}

/// Returns the indices of the values in descending order; equal values keep their order.
fn descending_order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order
}

fn numbers(x: Tensor<2>) -> Vec<f64> {
    kernel::read(x).iter::<f64>().collect()
}

fn tensor(matrix: &DMatrix<f64>, device: &Device) -> Tensor<2> {
    let (rows, columns) = matrix.shape();
    // nalgebra stores matrices by columns; the transpose is stored by rows.
    let values = matrix.transpose();
    let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    Tensor::from_data(
        TensorData::new(values, [rows, columns]),
        (device, DType::F32),
    )
}

fn places(order: &[usize], device: &Device) -> Tensor<1, Int> {
    let places: Vec<i64> = order.iter().map(|at| *at as i64).collect();
    Tensor::from_data(TensorData::new(places, [order.len()]), device)
}
