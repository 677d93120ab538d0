//! Dynamic tanh: γ·tanh(α·x)+β, elementwise (Zhu et al. 2025, Transformers without Normalization, section 4).
//!
//! Forward and backward each take one pass over memory. The backward pass recomputes the tanh, which costs less than
//! keeping it.

#[cfg(feature = "kernels")]
pub mod extension;
#[cfg(feature = "kernels")]
mod tracked;

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::has_kernels;
#[cfg(feature = "kernels")]
use extension::DynamicTanhOps;

/// Returns `gamma·tanh(alpha·x) + beta`: x `[B, S, D]`, alpha `[1]`, gamma and beta `[D]`.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn dynamic_tanh(
    x: Tensor<3>,
    alpha: Tensor<1>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
) -> Tensor<3> {
    let [_, _, width] = x.dims();
    assert_eq!(alpha.dims(), [1], "one alpha");
    assert_eq!(gamma.dims(), [width], "one gamma a column");
    assert_eq!(beta.dims(), [width], "one beta a column");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let [alpha, gamma, beta] = [alpha, gamma, beta].map(Tensor::into_dispatch);
        let out = Dispatch::dynamic_tanh(x.into_dispatch(), alpha, gamma, beta);
        return Tensor::from_dispatch(out);
    }
    composed::dynamic_tanh(x, alpha, gamma, beta)
}
