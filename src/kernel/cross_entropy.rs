//! Softmax cross-entropy from logits, with label smoothing as in PyTorch: the target distribution is
//! `(1−ε)·one_hot + ε/V`.

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

use super::composed;
#[cfg(feature = "flex")]
use super::{extension::KernelOps, has_kernels};

/// The target of a position that is not scored.
pub const NOT_SCORED: i64 = -100;

/// Sum over the rows of `−Σ distribution·log softmax(logits)`, shape `[1]`: both `[N, V]`, rows of the distribution
/// sum to 1. For targets that are mixed of few classes, so it has no kernel of its own.
pub fn soft_cross_entropy_sum(logits: Tensor<2>, distribution: Tensor<2>) -> Tensor<1> {
    composed::soft_cross_entropy_sum(logits, distribution)
}

/// Sum over the scored positions of `−log softmax(logits)[target]`, shape `[1]`: logits `[N, V]`, targets `[N]`
/// in `0..V`, or [`NOT_SCORED`].
pub fn cross_entropy_sum(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if has_kernels(&logits) {
        let (logits, targets) = (logits.into_dispatch(), targets.into_dispatch());
        let loss = Dispatch::cross_entropy_total(logits, targets, label_smoothing);
        return Tensor::from_dispatch(loss);
    }
    composed::cross_entropy_sum(logits, targets, label_smoothing)
}
