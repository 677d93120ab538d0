//! Steps of optimizers that move each element by itself, with some values kept beside it: plain ones, and ones that are decided on
//! their device. On the CPU a step is its optimizer's own function; GPUs have one kernel around the formulas of all
//! (`cube/updates/`). None of it is differentiated.

use burn::tensor::{FloatDType, Tensor};
use std::rc::Rc;

use super::optim::{Decision, together};
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::{
    cube::{
        together::{Joint, jointly},
        updates::Update,
    },
    optim::{all_on_cube, on_cube},
};
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

#[cfg(all(feature = "gpu", not(feature = "fusion")))]
pub use super::cube::updates::Launched;

/// What the kernels of GPUs need to know of a step: nothing in a build without them.
#[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
pub trait Launched<const N: usize> {}

#[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
impl<A, const N: usize> Launched<N> for A {}

/// The numbers of a step that keeps N values beside each element of a parameter.
pub trait ElementwiseStep<const N: usize>: Launched<N> + Copy + 'static {
    /// `(θ, g, values) → (θ, values)`, all of one shape, where no kernel of GPUs works.
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; N],
    ) -> Moved<D, N>;
}

/// A parameter and what is kept beside it.
pub type Moved<const D: usize, const N: usize> = (Tensor<D>, [Tensor<D>; N]);

/// The numbers of a step, and of the same update at later steps: replays ask for those by learning rate and number.
#[derive(Clone)]
pub struct Timed<A> {
    pub(super) lr: f64,
    pub(super) time: u64,
    pub(super) args: Rc<dyn Fn(f64, u64) -> A>,
}

impl<A: Copy + 'static> Timed<A> {
    /// A step at this learning rate that is the `time`th of its parameter, 1 at first; `args` gives its numbers, and those of later
    /// ones.
    pub fn new(lr: f64, time: u64, args: impl Fn(f64, u64) -> A + 'static) -> Self {
        Self {
            lr,
            time,
            args: Rc::new(args),
        }
    }

    /// The same numbers at every step.
    pub fn always(args: A) -> Self {
        Self::new(1.0, 1, move |_, _| args)
    }

    /// Those of this step.
    pub fn args(&self) -> A {
        (self.args)(self.lr, self.time)
    }
}

/// One step; buffers of the parameter and of what is kept are written in place when nothing else holds them.
pub fn elementwise_step<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    args: A,
) -> Moved<D, N> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if are_on_cube(&param, &grad, &values) {
        let timed = Timed::always(args);
        let (update, moved) = update(param, grad, values, &timed, None);
        Joint::launch(vec![update]);
        return moved;
    }
    args.apply(param, grad, values)
}

/// [`elementwise_step`] of a gradient that the decision scales; parameter and values stay what they were where the step is not
/// taken.
pub fn elementwise_step_if<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &Timed<A>,
    decision: &Decision,
) -> Moved<D, N> {
    together(|| elementwise_step_among(param, grad, values, step, decision))
}

/// [`elementwise_step_if`] that may share its launch within [`together`].
pub fn elementwise_step_among<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &Timed<A>,
    decision: &Decision,
) -> Moved<D, N> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if are_on_cube(&param, &grad, &values) {
        let decision = on_cube(decision.0.clone());
        let (update, moved) = update(param, grad, values, step, Some(decision));
        jointly(update);
        return moved;
    }
    let before = (param.clone(), values.clone());
    let factor = decision.factor::<D>().cast(FloatDType::from(grad.dtype()));
    let grad = grad * factor;
    let (param, values) = elementwise_step(param, grad, values, step.args());
    let (old, old_values) = before;
    let mut olds = old_values.into_iter();
    let values = values.map(|new| match olds.next() {
        Some(old) => decision.chosen(new, old),
        None => new,
    });
    (decision.chosen(param, old), values)
}

/// Whether the kernels of GPUs work on all of these.
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
fn are_on_cube<const D: usize, const N: usize>(
    param: &Tensor<D>,
    grad: &Tensor<D>,
    values: &[Tensor<D>; N],
) -> bool {
    all_on_cube([param, grad]) && all_on_cube(values.each_ref())
}

/// An update that is not launched, and what it will have written.
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
fn update<A: ElementwiseStep<N>, const D: usize, const N: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    values: [Tensor<D>; N],
    step: &Timed<A>,
    decision: Option<CubeTensor>,
) -> (Update, Moved<D, N>) {
    let (param, grad, values) = (on_cube(param), on_cube(grad), values.map(on_cube));
    let (update, param, values) = Update::new(param, grad, values, step, decision);
    let param = Tensor::from_primitive::<CubeBackend>(param);
    (
        update,
        (param, values.map(Tensor::from_primitive::<CubeBackend>)),
    )
}
