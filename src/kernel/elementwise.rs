//! Optimizer steps that update each element on its own, with some values (optimizer state) kept beside it: plain
//! steps, and steps that depend on a decision made on the device. On the CPU a step is its optimizer's own function;
//! GPUs have one kernel around the formulas of all of them (`cube/updates/`). None of them is differentiated.

use burn::tensor::{FloatDType, Tensor};
use std::rc::Rc;

use super::optim::{StepDecision, batch_launches};
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::{
    cube::{
        shared_launch::{SharedLaunch, launch_or_queue},
        updates::Update,
    },
    optim::{all_on_cube, cube_tensor},
};
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

#[cfg(all(feature = "gpu", not(feature = "fusion")))]
pub use super::cube::updates::Launched;

/// What GPU kernels need to know about a step; empty in a build without them.
#[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
pub trait Launched<const N: usize> {}

#[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
impl<A, const N: usize> Launched<N> for A {}

/// Coefficients of a step that keeps `N` values beside each element of a parameter.
pub trait ElementwiseStep<const N: usize>: Launched<N> + Copy + 'static {
    /// Takes the step `(θ, g, values) → (θ, values)`, all of one shape, if no GPU kernel applies.
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; N],
    ) -> Updated<D, N>;
}

/// An updated parameter and the updated values kept beside it.
pub type Updated<const D: usize, const N: usize> = (Tensor<D>, [Tensor<D>; N]);

/// Coefficients of a step, and of the same update at later steps: replays request those by learning rate and step
/// number.
#[derive(Clone)]
pub struct ScheduledStep<A> {
    pub(super) lr: f64,
    pub(super) time: u64,
    pub(super) args: Rc<dyn Fn(f64, u64) -> A>,
}

impl<A: Copy + 'static> ScheduledStep<A> {
    /// Creates a step with this learning rate that is the `time`-th step of its parameter, starting at 1. `args`
    /// returns the coefficients for a learning rate and step number.
    pub fn new(lr: f64, time: u64, args: impl Fn(f64, u64) -> A + 'static) -> Self {
        Self {
            lr,
            time,
            args: Rc::new(args),
        }
    }

    /// Creates a step whose coefficients never change.
    pub fn always(args: A) -> Self {
        Self::new(1.0, 1, move |_, _| args)
    }

    /// Returns the coefficients of this step.
    pub fn args(&self) -> A {
        (self.args)(self.lr, self.time)
    }
}

/// Takes one step. The buffers of the parameter and of the kept values are overwritten in place if nothing else
/// refers to them.
pub fn elementwise_step<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    args: A,
) -> Updated<D, N> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if inputs_on_cube(&param, &grad, &values) {
        let timed = ScheduledStep::always(args);
        let (update, moved) = update(param, grad, values, &timed, None);
        SharedLaunch::launch(vec![update]);
        return moved;
    }
    args.apply(param, grad, values)
}

/// Takes an [`elementwise_step`] with a gradient scaled by the decision. Parameter and values keep their old value if
/// the decision is not to take the step.
pub fn elementwise_step_if<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &ScheduledStep<A>,
    decision: &StepDecision,
) -> Updated<D, N> {
    batch_launches(|| elementwise_step_batched(param, grad, values, step, decision))
}

/// Like [`elementwise_step_if`], but may share its launch with others within [`batch_launches`](super::optim::batch_launches).
pub fn elementwise_step_batched<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &ScheduledStep<A>,
    decision: &StepDecision,
) -> Updated<D, N> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if inputs_on_cube(&param, &grad, &values) {
        let decision = cube_tensor(decision.0.clone());
        let (update, moved) = update(param, grad, values, step, Some(decision));
        launch_or_queue(update);
        return moved;
    }
    let before = (param.clone(), values.clone());
    let factor = decision.factor::<D>().cast(FloatDType::from(grad.dtype()));
    let grad = grad * factor;
    let (param, values) = elementwise_step(param, grad, values, step.args());
    let (old, old_values) = before;
    let mut olds = old_values.into_iter();
    let values = values.map(|new| match olds.next() {
        Some(old) => decision.select(new, old),
        None => new,
    });
    (decision.select(param, old), values)
}

/// Returns whether the GPU kernels accept all of these tensors.
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
fn inputs_on_cube<const D: usize, const N: usize>(
    param: &Tensor<D>,
    grad: &Tensor<D>,
    values: &[Tensor<D>; N],
) -> bool {
    all_on_cube([param, grad]) && all_on_cube(values.each_ref())
}

/// Returns an update that is not launched yet, and the tensors that it will write.
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
fn update<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &ScheduledStep<A>,
    decision: Option<CubeTensor>,
) -> (Update, Updated<D, N>) {
    let (param, grad, values) = (
        cube_tensor(param),
        cube_tensor(grad),
        values.map(cube_tensor),
    );
    let (update, param, values) = Update::new(param, grad, values, step, decision);
    let param = Tensor::from_primitive::<CubeBackend>(param);
    (
        update,
        (param, values.map(Tensor::from_primitive::<CubeBackend>)),
    )
}
