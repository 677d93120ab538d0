//! Optimizer steps other than AdamW that divide by the root of a running mean of squared gradients: one pass over
//! memory on the CPU, elementwise steps on GPUs. None of them is differentiated.

#[cfg(feature = "flex")]
use burn::backend::Flex;
use burn::tensor::Tensor;

use super::composed;
use super::elementwise::{ElementwiseStep, Updated};
#[cfg(feature = "flex")]
use super::{
    flex,
    optim::{all_on_flex, flex_tensor},
    profile::timed,
};

/// Coefficients of a step along the running mean m of gradients g plus another tensor x, divided by the root of the
/// running mean v of squared gradients:
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
    /// Factor of the parameter: 1 − ηλ for a weight decay λ.
    pub keep: f64,
    /// Factor of m.
    pub first: f64,
    /// Factor of x.
    pub other: f64,
    /// Factor of √v.
    pub root: f64,
    /// Added to the scaled root.
    pub eps: f64,
}

/// Coefficients of a step along the running mean m of gradients g, each first divided by the root of the mean v of
/// the earlier squares:
///
/// ```text
/// m ← β₁m + (1 − β₁)·clip(g/max(√v, eps), ±limit),   θ ← keep·θ − lr·m,   v ← β₂v + (1 − β₂)g²
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdoptArgs {
    /// Learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// Factor of the parameter: 1 − ηλ for a weight decay λ.
    pub keep: f64,
    /// Lower bound of the divisor.
    pub eps: f64,
    /// Bound of the absolute value of a gradient after the division.
    pub limit: f64,
}

/// Coefficients of a step with a second, slower mean of gradients, `s ← slow·s + (1 − slow)g`. It takes the place of
/// x in [`AdaptiveArgs`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdemamixArgs {
    /// The step along both means.
    pub fast: AdaptiveArgs,
    /// Decay of the slow mean.
    pub slow: f64,
}

/// Steps along the mean of gradients and the gradient itself (x = g).
impl ElementwiseStep<2> for AdaptiveArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; 2],
    ) -> Updated<D, 2> {
        adaptive_step(param, grad.clone(), grad, values, self)
    }
}

impl ElementwiseStep<3> for AdemamixArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        [first, second, slow]: [Tensor<D>; 3],
    ) -> Updated<D, 3> {
        let slow = mean_step(slow, grad.clone(), self.slow);
        let moments = [first, second];
        let (param, moments) = adaptive_step(param, grad, slow.clone(), moments, self.fast);
        let [first, second] = moments;
        (param, [first, second, slow])
    }
}

impl ElementwiseStep<2> for AdoptArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; 2],
    ) -> Updated<D, 2> {
        adopt_step(param, grad, values, self)
    }
}

/// Takes the step of [`AdaptiveArgs`]: `(θ, g, x, [m, v]) → (θ, [m, v])`, all of one shape. The buffers of θ, m and v
/// are overwritten in place if nothing else refers to them.
pub fn adaptive_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    other: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    args: AdaptiveArgs,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    #[cfg(feature = "flex")]
    if all_on_flex([&param, &grad, &other, &m, &v]) {
        let moved = [param, m, v].map(flex_tensor);
        let given = [grad, other].map(flex_tensor);
        let step = || flex::adaptive::adaptive_step(moved, given, args);
        let [param, m, v] = timed("optimizer", step).map(Tensor::from_primitive::<Flex>);
        return (param, [m, v]);
    }
    composed::adaptive_step(param, grad, other, [m, v], args)
}

/// Takes the step of [`AdoptArgs`]: `(θ, g, [m, v]) → (θ, [m, v])`, all of one shape. The buffers of θ, m and v are
/// overwritten in place if nothing else refers to them.
pub fn adopt_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    [m, v]: [Tensor<D>; 2],
    args: AdoptArgs,
) -> (Tensor<D>, [Tensor<D>; 2]) {
    #[cfg(feature = "flex")]
    if all_on_flex([&param, &grad, &m, &v]) {
        let (moved, grad) = ([param, m, v].map(flex_tensor), flex_tensor(grad));
        let step = || flex::adaptive::adopt_step(moved, grad, args);
        let [param, m, v] = timed("optimizer", step).map(Tensor::from_primitive::<Flex>);
        return (param, [m, v]);
    }
    composed::adopt_step(param, grad, [m, v], args)
}

/// Returns `decay·mean + (1 − decay)·value`, in place if nothing else refers to the mean.
pub fn mean_step<const D: usize>(mean: Tensor<D>, value: Tensor<D>, decay: f64) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if all_on_flex([&mean, &value]) {
        let (mean, value) = (flex_tensor(mean), flex_tensor(value));
        let step = || flex::adaptive::mean_step(mean, value, decay);
        return Tensor::from_primitive::<Flex>(timed("optimizer", step));
    }
    composed::mean_step(mean, value, decay)
}
