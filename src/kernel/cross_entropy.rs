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

/// The target of a position that is not scored.
pub const NOT_SCORED: i64 = -100;

/// Sum over the rows of `−Σ distribution·log softmax(logits)`, shape `[1]`: both `[N, V]`; rows of the distribution
/// sum to 1, or to more or less where classes have weights. For targets that are mixed of few classes, so it has no kernel of its own.
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
    #[cfg(feature = "kernels")]
    if has_kernels(&logits) {
        let (logits, targets) = (logits.into_dispatch(), targets.into_dispatch());
        let loss = Dispatch::cross_entropy_total(logits, targets, label_smoothing);
        return Tensor::from_dispatch(loss);
    }
    composed::cross_entropy_sum(logits, targets, label_smoothing)
}

/// [`cross_entropy_sum`] of scores `[N, V]` that are at hand, and where they are right.
pub fn scores_loss(scores: Tensor<2>, targets: Tensor<1, Int>, label_smoothing: f64) -> HeadLoss {
    HeadLoss {
        right: composed::right(&scores, targets.clone()),
        sum: cross_entropy_sum(scores, targets, label_smoothing),
    }
}

/// The product of hidden states that gives scores of a vocabulary.
#[derive(Clone, Debug)]
pub struct Head {
    /// `[vocab, d]`: a matrix of its own, or the table of embeddings.
    pub weight: Tensor<2>,
    /// Added to the scores, `[vocab]`.
    pub bias: Option<Tensor<1>>,
}

/// A loss over a vocabulary and what it was right about.
#[derive(Clone, Debug)]
pub struct HeadLoss {
    /// Sum over the scored positions, `[1]`.
    pub sum: Tensor<1>,
    /// 1 for every scored position whose target has the highest score, else 0; `[N]`, without gradient.
    pub right: Tensor<1>,
}

/// [`cross_entropy_sum`] of the scores that the head gives hidden states `[N, d]`, without ever holding all of
/// them: rows are taken in tiles, and only scored ones. Of equal scores the first counts as the highest.
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
            right: out.detach().narrow(0, 1, positions),
        };
    }
    composed::head_loss(hidden, head, targets, label_smoothing)
}
