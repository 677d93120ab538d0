//! The steps of optimizers other than AdamW.

use burn::tensor::Tensor;

use crate::kernel::{AdaptiveArgs, AdoptArgs};

/// Takes the step of [`AdaptiveArgs`].
pub fn adaptive_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    other: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    args: AdaptiveArgs,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    let [beta_1, beta_2] = args.betas;
    let m = mean_step(m, grad.clone(), beta_1);
    let v = mean_step(v, grad.square(), beta_2);
    let along = m.clone() * args.first + other * args.other;
    let scale = v.clone().sqrt() * args.root + args.eps;
    (param * args.keep - along / scale * args.lr, [m, v])
}

/// Takes the step of [`AdoptArgs`].
pub fn adopt_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    args: AdoptArgs,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    let [beta_1, beta_2] = args.betas;
    let scale = v.clone().sqrt().clamp_min(args.eps);
    let normed = (grad.clone() / scale).clamp(-args.limit, args.limit);
    let m = mean_step(m, normed, beta_1);
    let v = mean_step(v, grad.square(), beta_2);
    (param * args.keep - m.clone() * args.lr, [m, v])
}

/// Returns `decay·mean + (1 − decay)·value`.
pub fn mean_step<const D: usize>(mean: Tensor<D>, value: Tensor<D>, decay: f64) -> Tensor<D> {
    mean * decay + value * (1.0 - decay)
}
