//! Softmax cross-entropy from logits, with label smoothing as in PyTorch: the target distribution is
//! `(1−ε)·one_hot + ε/V`.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

use super::composed;
#[cfg(feature = "kernels")]
use super::{
    extension::{KernelOps, maybe},
    has_kernels,
    precision::operand,
};

/// Target of a position that is not scored, as in PyTorch.
pub const IGNORE_INDEX: i64 = -100;

/// Returns the sum over the rows of `−Σ distribution·log softmax(logits)`, shape `[1]`; both are `[N, V]`. Each row
/// of the distribution sums to 1, or to another number if classes have weights. This is for targets that mix a few
/// classes, so it has no kernel of its own.
pub fn soft_cross_entropy_sum(logits: Tensor<2>, distribution: Tensor<2>) -> Tensor<1> {
    composed::soft_cross_entropy_sum(logits, distribution)
}

/// Returns the sum over the scored positions of `−log softmax(logits)[target]`, shape `[1]`. Logits are `[N, V]`,
/// targets `[N]` in `0..V` or [`IGNORE_INDEX`].
pub fn cross_entropy_sum(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
) -> Tensor<1> {
    #[cfg(feature = "kernels")]
    if has_kernels(&logits) {
        let (logits, targets) = (logits.into_dispatch(), targets.into_dispatch());
        let loss = Dispatch::cross_entropy_total(logits, targets, label_smoothing);
        return Tensor::from_dispatch(loss);
    }
    composed::cross_entropy_sum(logits, targets, label_smoothing)
}

/// Returns the [`cross_entropy_sum`] of given logits `[N, V]` and the positions at which they are right.
pub fn logits_loss(scores: Tensor<2>, targets: Tensor<1, Int>, label_smoothing: f64) -> HeadLoss {
    HeadLoss {
        is_correct: composed::correct_predictions(&scores, targets.clone()),
        sum: cross_entropy_sum(scores, targets, label_smoothing),
    }
}

/// An LM head: the output projection of hidden states onto the vocabulary.
#[derive(Clone, Debug)]
pub struct Head {
    /// Weight `[vocab, d]`: a separate matrix, or the tied embedding table.
    pub weight: Tensor<2>,
    /// Bias added to the logits, `[vocab]`.
    pub bias: Option<Tensor<1>>,
}

/// A loss over a vocabulary, with the positions that were predicted correctly.
#[derive(Clone, Debug)]
pub struct HeadLoss {
    /// Sum of the losses over the scored positions, `[1]`.
    pub sum: Tensor<1>,
    /// 1 for every scored position whose target has the highest logit, else 0; `[N]`, without gradient.
    pub is_correct: Tensor<1>,
}

/// Returns the [`cross_entropy_sum`] of the logits that the head gives hidden states `[N, d]` without ever holding
/// all of them: rows are processed in tiles, and only scored ones. Among equal logits the first counts as the
/// highest.
pub fn head_loss(
    hidden: Tensor<2>,
    head: Head,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
) -> HeadLoss {
    #[cfg(feature = "kernels")]
    if has_kernels(&hidden) {
        let positions = hidden.dims()[0];
        let out = Dispatch::head_loss(
            operand(hidden).into_dispatch(),
            operand(head.weight).into_dispatch(),
            maybe(head.bias),
            targets.into_dispatch(),
            label_smoothing,
        );
        let out = Tensor::<1>::from_dispatch(out);
        return HeadLoss {
            sum: out.clone().narrow(0, 0, 1),
            is_correct: out.detach().narrow(0, 1, positions),
        };
    }
    composed::head_loss(hidden, head, targets, label_smoothing)
}
