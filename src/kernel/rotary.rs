//! Rotary position embedding (Su et al. 2021, arXiv:2104.09864): pairs of dimensions are rotated by an angle per
//! position. The backward pass is the rotation by the negative angle; the tables are constants.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{extension::KernelOps, has_kernels};

/// Rotates the first `R` dimensions of every head of x `[B, H, S, D]` by the angles in cos and sin `[S, R/2]`. Pair
/// `i` consists of dimensions `(i, i + R/2)`, or `(2i, 2i + 1)` if `interleaved`.
pub fn rotary(x: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>, interleaved: bool) -> Tensor<4> {
    let ([_, _, seq, d_head], [positions, pairs]) = (x.dims(), cos.dims());
    assert_eq!(positions, seq, "one row of angles per position");
    assert_eq!(cos.dims(), sin.dims(), "cosines and sines");
    assert!(2 * pairs <= d_head, "{pairs} pairs in {d_head} dimensions");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let (x, cos, sin) = (x.into_dispatch(), cos.into_dispatch(), sin.into_dispatch());
        return Tensor::from_dispatch(Dispatch::rotate(x, cos, sin, interleaved, false));
    }
    composed::rotary(x, cos, sin, interleaved)
}
