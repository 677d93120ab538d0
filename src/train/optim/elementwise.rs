//! Steps of elementwise optimizers, in the same form for steps that the host decides on and steps that the device decides on.

use super::state::like;
use crate::kernel::{self, ElementwiseStep, ScheduledStep, Updated, to_f32};
use crate::train::verdict::Verdict;
use burn::tensor::{DType, Tensor};

/// Takes a step in the number format of the weights, under the device's decision if there is one.
pub(super) fn step_in_dtype<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    tensor: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &ScheduledStep<A>,
    verdict: Option<&Verdict>,
) -> Updated<D, N> {
    match verdict {
        None => kernel::elementwise_step(tensor, grad, values, step.args()),
        Some(verdict) => {
            kernel::elementwise_step_batched(tensor, grad, values, step, verdict.decision())
        }
    }
}

/// Takes a step in single precision, for weights of any number format.
pub(super) fn step_in_f32<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    tensor: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &ScheduledStep<A>,
    verdict: Option<&Verdict>,
) -> Updated<D, N> {
    let dtype = tensor.dtype();
    if dtype == DType::F32 {
        return step_in_dtype(tensor, to_f32(grad), values, step, verdict);
    }
    let (tensor, grad) = (to_f32(tensor), to_f32(grad));
    let (tensor, values) = match verdict {
        None => kernel::elementwise_step(tensor, grad, values, step.args()),
        // The result is cast back, which reads it before the batched steps of other parameters run.
        Some(verdict) => {
            kernel::elementwise_step_if(tensor, grad, values, step, verdict.decision())
        }
    };
    (like(tensor, dtype), values)
}
