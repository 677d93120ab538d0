//! An optimizer's operations on whole tensors: norms, scaling, and AdamW's update (Loshchilov and Hutter 2019,
//! arXiv:1711.05101) in one pass over memory. None of them is differentiated.

#[cfg(feature = "flex")]
use burn::backend::Flex;
use burn::tensor::Tensor;

use super::composed;
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::cube;
use super::elementwise::{ElementwiseStep, Updated, elementwise_step};
#[cfg(feature = "flex")]
use super::{flex, has_flex_kernels, profile::timed};
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

/// Arguments of one AdamW step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamwArgs {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of gradients.
    pub beta_1: f64,
    /// Decay of the mean of squared gradients.
    pub beta_2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay: the parameter is multiplied by `1 − lr·weight_decay`.
    pub weight_decay: f64,
    /// Number of steps that these moments have seen, this one included; starts at 1.
    pub time: u64,
}

/// The arguments as factors of the formula, computed once in float64.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamwFactors {
    /// `1 − lr·weight_decay`
    pub decay: f64,
    /// `lr / (1 − beta_1^t)`
    pub step_size: f64,
    /// `1 / √(1 − beta_2^t)`
    pub second_scale: f64,
}

impl AdamwArgs {
    pub(super) fn factors(&self) -> AdamwFactors {
        let time = self.time as f64;
        AdamwFactors {
            decay: 1.0 - self.lr * self.weight_decay,
            step_size: self.lr / (1.0 - self.beta_1.powf(time)),
            second_scale: 1.0 / (1.0 - self.beta_2.powf(time)).sqrt(),
        }
    }
}

impl ElementwiseStep<2> for AdamwArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        [moment_1, moment_2]: [Tensor<D>; 2],
    ) -> Updated<D, 2> {
        #[cfg(feature = "flex")]
        if all_on_flex([&param, &grad, &moment_1, &moment_2]) {
            let moments = [flex_tensor(moment_1), flex_tensor(moment_2)];
            let (param, grad) = (flex_tensor(param), flex_tensor(grad));
            let step = || flex::optim::adamw_step(param, grad, moments, self);
            let [param, moment_1, moment_2] =
                timed("AdamW", step).map(Tensor::from_primitive::<Flex>);
            return (param, [moment_1, moment_2]);
        }
        let (param, moment_1, moment_2) =
            composed::adamw_step(param, grad, moment_1, moment_2, self);
        (param, [moment_1, moment_2])
    }
}

/// Takes one AdamW step, `(param, grad, moments) → (param, moments)`, with PyTorch's formula. The buffers of param
/// and moments are overwritten in place if nothing else refers to them.
pub fn adamw_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    moment_1: Tensor<D>,
    moment_2: Tensor<D>,
    args: AdamwArgs,
) -> (Tensor<D>, Tensor<D>, Tensor<D>) {
    let (param, moments) = elementwise_step(param, grad, [moment_1, moment_2], args);
    let [moment_1, moment_2] = moments;
    (param, moment_1, moment_2)
}

/// Returns the sum of the squares of all elements, for the global gradient norm.
pub fn sum_of_squares<const D: usize>(x: &Tensor<D>) -> f64 {
    #[cfg(feature = "flex")]
    if all_on_flex([x]) {
        let x = flex_tensor(x.clone());
        return timed("norm of gradients", || flex::optim::sum_of_squares(x));
    }
    composed::sum_of_squares(x.clone())
}

/// Returns the sum of the squares of all elements of one or more tensors, `[1]`, which stays on their device.
pub fn sum_of_squares_on_device(tensors: Vec<Tensor<1>>) -> Tensor<1> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if tensors.iter().all(|x| all_on_cube([x])) {
        let tensors = tensors.into_iter().map(cube_tensor);
        return Tensor::from_primitive::<CubeBackend>(cube::squares::sum(tensors.collect()));
    }
    let each = tensors.into_iter().map(composed::squares);
    each.reduce(|sum, squares| sum + squares)
        .expect("there is at least one tensor")
}

/// A decision about a step, made on its device, `[2]`: 1 if the step is taken or else 0, then the factor of its
/// gradients.
#[derive(Clone, Debug)]
pub struct StepDecision(pub Tensor<1>);

/// Decides whether to take a step from its loss and the sum of squares of its gradients, `[1]` each on their device.
/// The step is taken if both are finite and `before`, the flag of the previous step (1 or 0, `[1]`), is set or
/// absent. With a limit, the gradients are scaled down to that norm as by PyTorch's `clip_grad_norm_`, which adds
/// 1e-6 to the norm.
pub fn decide_step(
    loss: Tensor<1>,
    squares: Tensor<1>,
    limit: Option<f64>,
    before: Option<Tensor<1>>,
) -> StepDecision {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if all_on_cube([&loss, &squares]) {
        let (loss, squares, before) = (
            cube_tensor(loss),
            cube_tensor(squares),
            before.map(cube_tensor),
        );
        let decided = cube::decision::decide(loss, squares, limit, before);
        return StepDecision(Tensor::from_primitive::<CubeBackend>(decided));
    }
    StepDecision(composed::decide_step(loss, squares, limit, before))
}

impl StepDecision {
    /// Returns the same decision for a gradient that has already been scaled.
    pub fn without_scale(&self) -> Self {
        let taken = self.is_taken();
        let one = taken.ones_like();
        Self(Tensor::cat(vec![taken, one], 0))
    }

    /// Returns whether the step is taken, 1 or 0, `[1]`.
    pub fn is_taken(&self) -> Tensor<1> {
        self.0.clone().narrow(0, 0, 1)
    }

    /// Returns the factor of the gradients.
    pub fn factor<const D: usize>(&self) -> Tensor<D> {
        self.0.clone().narrow(0, 1, 1).reshape([1; D])
    }

    /// Returns the new value if the step is taken, else the old one.
    pub(super) fn select<const D: usize>(&self, new: Tensor<D>, old: Tensor<D>) -> Tensor<D> {
        let taken = self.is_taken().reshape([1; D]);
        let taken = taken.not_equal_elem(0.0).expand(new.dims());
        old.mask_where(taken, new)
    }
}

/// Runs updates of small tensors in shared launches. The results of [`elementwise_step_batched`] and [`mean_step_batched`]
/// must not be read before this returns, and all updates must be made under one decision.
///
/// [`elementwise_step_batched`]: super::elementwise_step_batched
pub fn batch_launches<T>(updates: impl FnOnce() -> T) -> T {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    return cube::shared_launch::batch_launches(updates);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    updates()
}

/// Returns `decay·mean + (1 − decay)·value` if the step is taken, else the old mean.
pub fn mean_step_if<const D: usize>(
    mean: Tensor<D>,
    value: Tensor<D>,
    decay: f64,
    decision: &StepDecision,
) -> Tensor<D> {
    batch_launches(|| mean_step_batched(mean, value, decay, decision))
}

/// Like [`mean_step_if`], but may share its launch with others within [`batch_launches`].
pub fn mean_step_batched<const D: usize>(
    mean: Tensor<D>,
    value: Tensor<D>,
    decay: f64,
    decision: &StepDecision,
) -> Tensor<D> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if all_on_cube([&mean, &value]) {
        let (mean, value) = (cube_tensor(mean), cube_tensor(value));
        let moving = cube::optim::Mean::new(mean, value, decay, cube_tensor(decision.0.clone()));
        let moved = moving.result();
        cube::shared_launch::launch_or_queue(moving);
        return Tensor::from_primitive::<CubeBackend>(moved);
    }
    let moved = mean.clone() * decay + value * (1.0 - decay);
    decision.select(moved, mean)
}

/// Returns the sum of the squares of `x − y`, for the length of a step.
pub fn squared_distance<const D: usize>(x: &Tensor<D>, y: &Tensor<D>) -> f64 {
    #[cfg(feature = "flex")]
    if all_on_flex([x, y]) {
        let (x, y) = (flex_tensor(x.clone()), flex_tensor(y.clone()));
        return timed("length of steps", || flex::optim::squared_distance(x, y));
    }
    composed::squared_distance(x.clone(), y.clone())
}

/// Returns `x·factor`, in place if nothing else refers to x; used for gradient clipping.
pub fn scale<const D: usize>(x: Tensor<D>, factor: f64) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if all_on_flex([&x]) {
        let x = flex_tensor(x);
        let x = timed("scaling", || flex::optim::scale(x, factor as f32));
        return Tensor::from_primitive::<Flex>(x);
    }
    x * factor
}

/// Returns whether the tensors are outside autodiff and accepted by the flex kernels.
#[cfg(feature = "flex")]
pub(super) fn all_on_flex<const D: usize, const N: usize>(tensors: [&Tensor<D>; N]) -> bool {
    let plain = |x: &&Tensor<D>| has_flex_kernels(*x) && !x.device().is_autodiff();
    tensors.iter().all(plain)
}

/// Returns the flex primitive of a tensor for which [`all_on_flex`] holds.
#[cfg(feature = "flex")]
pub(super) fn flex_tensor<const D: usize>(x: Tensor<D>) -> burn_flex::FlexTensor {
    x.try_into_primitive::<Flex>()
        .expect("the device was checked to be flex, without autodiff")
}

/// Returns whether the tensors are outside autodiff and accepted by the GPU kernels.
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
pub(super) fn all_on_cube<const D: usize, const N: usize>(tensors: [&Tensor<D>; N]) -> bool {
    let plain = |x: &&Tensor<D>| {
        super::has_kernels(*x) && super::is_on_cube(*x) && !x.device().is_autodiff()
    };
    tensors.iter().all(plain)
}

/// Returns the CubeCL primitive of a tensor for which [`all_on_cube`] holds.
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
pub(super) fn cube_tensor<const D: usize>(x: Tensor<D>) -> CubeTensor {
    x.try_into_primitive::<CubeBackend>()
        .expect("the device was checked to be one of CubeCL, without autodiff")
}
