//! Shapes that do not fit are refused, and empty ones give zeros: no kernel returns memory that it did not write.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::Tensor;
use formwork::kernel::{self, ConvolutionSettings};

use super::{random, values};

fn refused<const D: usize>(what: &str, made: impl FnOnce() -> Tensor<D>) {
    let made = catch_unwind(AssertUnwindSafe(|| values(&made())));
    assert!(made.is_err(), "{what}: {:?}", made.map(|x| x.len()));
}

/// A gamma whose length is not that of a row; the input has not even one row of the longest.
#[test]
fn a_norm_refuses_vectors_of_another_length() {
    let (x, y) = (random([2, 3, 8], 1), random([2, 3, 8], 2));
    let right = random([8], 3);
    for len in [1, 4, 7, 9, 16, 5000] {
        let wrong = random([len], 4);
        let both = || [x.clone(), y.clone()];
        refused("gamma", || {
            kernel::layer_norm(x.clone(), Some(wrong.clone()), None, 1e-5)
        });
        refused("beta", || {
            kernel::layer_norm(x.clone(), Some(right.clone()), Some(wrong.clone()), 1e-5)
        });
        for vectors in [[&wrong, &right], [&right, &wrong]] {
            refused("dynamic tanh", || {
                let (alpha, [gamma, beta]) = (random([1], 5), vectors.map(Tensor::clone));
                kernel::dynamic_tanh(x.clone(), alpha, gamma, beta)
            });
        }
        refused("gamma of rms", || {
            kernel::rms_norm(x.clone(), Some(wrong.clone()), 1e-5)
        });
        refused("gamma of a sum", || {
            kernel::rms_norm_of_sum(both(), 1.0, Some(wrong.clone()), 1e-5)
        });
        refused("beta of a sum", || {
            let beta = Some(wrong.clone());
            kernel::layer_norm_of_sum(both(), 1.0, Some(right.clone()), beta, 1e-5)
        });
    }
}

/// An image without rows: every window lies entirely in the padding.
#[test]
fn a_convolution_over_nothing_is_zero() {
    // Buffers with other contents, which the next buffer of their size would reuse.
    for _ in 0..8 {
        drop(random([3, 4, 2, 7], 1) + 1.0);
    }
    let settings = ConvolutionSettings {
        stride: 1,
        padding: 2,
    };
    let out = kernel::convolution(random([3, 2, 0, 5], 1), random([4, 2, 3, 3], 2), settings);
    assert_eq!(out.dims(), [3, 4, 2, 7]);
    assert!(values(&out).iter().all(|x| *x == 0.0));
}

/// `[k, 16 d]` is not a weight in panels for rows of width d, and a weight in panels fits only its own width.
#[test]
fn a_matrix_is_not_taken_for_panels() {
    for d in [1, 3, 16] {
        let (x, wrong) = (random([1, 2, d], 1), random([5, 16 * d], 2));
        refused("a matrix", || {
            kernel::linear(x.clone(), wrong.clone(), None)
        });
        let stored = kernel::repacked(random([32, d], 3));
        let y = kernel::linear(x.clone(), stored.clone(), None);
        assert_eq!(y.dims(), [1, 2, 32]);
        refused("panels of another width", || {
            kernel::linear(random([1, 2, d + 1], 1), stored.clone(), None)
        });
        refused("panels as a matrix", || {
            kernel::linear(random([1, 2, 16 * d], 1), stored.clone(), None)
        });
    }
}
