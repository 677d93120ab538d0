//! Steps of optimizers beside AdamW that go by the root of a mean of squared gradients: in one pass over memory on the CPU, and on
//! GPUs as steps of single elements. None of it is differentiated.

#[cfg(feature = "flex")]
use burn::backend::Flex;
use burn::tensor::Tensor;

use super::composed;
use super::elementwise::{ElementwiseStep, Moved};
#[cfg(feature = "flex")]
use super::{
    flex,
    optim::{all_plain, primitive},
    profile::timed,
};

/// The numbers of a step along a mean m of gradients g, and something more x, over the root of a mean v of squared gradients:
///
/// ```text
/// m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   θ ← keep·θ − lr·(first·m + other·x)/(root·√v + eps)
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveArgs {
    /// Learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// What the parameter is multiplied by: 1 − ηλ with a weight decay λ.
    pub keep: f64,
    /// Factor of the mean of gradients.
    pub first: f64,
    /// Factor of x.
    pub other: f64,
    /// Factor of the root.
    pub root: f64,
    /// Added to the root.
    pub eps: f64,
}

/// The numbers of a step along a mean m of gradients g that were divided by the root of the mean v of the squares before them:
///
/// ```text
/// m ← β₁m + (1 − β₁)·clip(g/max(√v, eps), ±limit),   θ ← keep·θ − lr·m,   v ← β₂v + (1 − β₂)g²
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormedArgs {
    /// Learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// What the parameter is multiplied by: 1 − ηλ with a weight decay λ.
    pub keep: f64,
    /// The least divisor.
    pub eps: f64,
    /// The largest gradient after the division.
    pub limit: f64,
}

/// The numbers of a step along a mean of gradients over many more steps, `s ← slow·s + (1 − slow)g`, which is x in the step of the
/// others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowedArgs {
    /// The step along both means.
    pub fast: AdaptiveArgs,
    /// Decay of the slow mean.
    pub slow: f64,
}

/// Along the mean of gradients and the gradient itself.
impl ElementwiseStep<2> for AdaptiveArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; 2],
    ) -> Moved<D, 2> {
        adaptive_step(param, grad.clone(), grad, values, self)
    }
}

impl ElementwiseStep<3> for SlowedArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        [first, second, slow]: [Tensor<D>; 3],
    ) -> Moved<D, 3> {
        let slow = mean_step(slow, grad.clone(), self.slow);
        let moments = [first, second];
        let (param, moments) = adaptive_step(param, grad, slow.clone(), moments, self.fast);
        let [first, second] = moments;
        (param, [first, second, slow])
    }
}

impl ElementwiseStep<2> for NormedArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; 2],
    ) -> Moved<D, 2> {
        normed_step(param, grad, values, self)
    }
}

/// The step of [`AdaptiveArgs`]: `(θ, g, x, [m, v]) → (θ, [m, v])`, all of one shape. The buffers of θ and moments are written
/// in place when nothing else holds them.
pub fn adaptive_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    other: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    args: AdaptiveArgs,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    #[cfg(feature = "flex")]
    if all_plain([&param, &grad, &other, &m, &v]) {
        let moved = [param, m, v].map(primitive);
        let given = [grad, other].map(primitive);
        let step = || flex::adaptive::adaptive_step(moved, given, args);
        let [param, m, v] = timed("optimizer", step).map(Tensor::from_primitive::<Flex>);
        return (param, [m, v]);
    }
    composed::adaptive_step(param, grad, other, [m, v], args)
}

/// The step of [`NormedArgs`]: `(θ, g, [m, v]) → (θ, [m, v])`, all of one shape. The buffers of θ and moments are written in
/// place when nothing else holds them.
pub fn normed_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    args: NormedArgs,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    #[cfg(feature = "flex")]
    if all_plain([&param, &grad, &m, &v]) {
        let (moved, grad) = ([param, m, v].map(primitive), primitive(grad));
        let step = || flex::adaptive::normed_step(moved, grad, args);
        let [param, m, v] = timed("optimizer", step).map(Tensor::from_primitive::<Flex>);
        return (param, [m, v]);
    }
    composed::normed_step(param, grad, [m, v], args)
}

/// `decay·mean + (1 − decay)·value`, in place when nothing else holds the mean.
pub fn mean_step<const D: usize>(mean: Tensor<D>, value: Tensor<D>, decay: f64) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if all_plain([&mean, &value]) {
        let (mean, value) = (primitive(mean), primitive(value));
        let step = || flex::adaptive::mean_step(mean, value, decay);
        return Tensor::from_primitive::<Flex>(timed("optimizer", step));
    }
    composed::mean_step(mean, value, decay)
}
