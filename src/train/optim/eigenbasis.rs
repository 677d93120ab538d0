//! The eigenvectors of a preconditioner, which is symmetric: whole at first, then by one round of orthogonal iteration at a time, as
//! SOAP follows them (Vyas et al. 2024, algorithm 4): Q ← the orthogonal factor of AQ, its columns by falling qᵀAq. On the host, in
//! double precision.

use crate::kernel;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use nalgebra::{DMatrix, SymmetricEigen};

/// Rounds of the decomposition for each row; a few are enough.
const ROUNDS: usize = 100;

/// The eigenvectors of a symmetric matrix, one a column, by falling eigenvalues. The identity where the matrix holds no numbers: its
/// step is not taken.
pub(super) fn of(matrix: Tensor<2>) -> Tensor<2> {
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
            let order = falling(eigen.eigenvalues.as_slice());
            let vectors = &eigen.eigenvectors;
            DMatrix::from_fn(n, n, |row, column| vectors[(row, order[column])])
        }
        None => DMatrix::identity(n, n),
    };
    tensor(&vectors, &device)
}

/// A basis that follows a symmetric matrix by one round, and the columns of the old one in the order of its own.
pub(super) fn followed(matrix: &Tensor<2>, basis: &Tensor<2>) -> (Tensor<2>, Tensor<1, Int>) {
    let device = matrix.device();
    let [n, _] = matrix.dims();
    let product = matrix.clone().matmul(basis.clone());
    let estimates = numbers((basis.clone() * product.clone()).sum_dim(0));
    let values = numbers(product);
    if !values.iter().chain(&estimates).all(|x| x.is_finite()) {
        let order: Vec<usize> = (0..n).collect();
        return (basis.clone(), places(&order, &device));
    }
    let order = falling(&estimates);
    let sorted = DMatrix::from_fn(n, n, |row, column| values[row * n + order[column]]);
    (tensor(&sorted.qr().q(), &device), places(&order, &device))
}

/// The places of numbers by falling size; equal ones stay in their order.
fn falling(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order
}

fn numbers(x: Tensor<2>) -> Vec<f64> {
    kernel::read(x).iter::<f64>().collect()
}

fn tensor(matrix: &DMatrix<f64>, device: &Device) -> Tensor<2> {
    let (rows, columns) = matrix.shape();
    // A transposed matrix of columns lies by rows.
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
