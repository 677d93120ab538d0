//! The decision about a step, made on its device: how much its gradients are scaled down, and whether it is taken at all.
//!
//! The host queues the next steps before it knows the numbers of this one. So the decision is a tensor that the
//! optimizer, the moving averages of weights and the running averages of norms read: after a bad loss or gradient,
//! every value keeps its old value. A decision includes those of the previous steps: after a bad step nothing changes
//! until the host has seen it.

use super::gradients::Gradient;
use crate::kernel::{self, StepDecision};
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, FloatDType, Tensor};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

thread_local! {
    /// The decision about the update that this thread runs: Burn hands an optimizer a gradient and nothing else.
    static CURRENT: RefCell<Option<Verdict>> = const { RefCell::new(None) };
}

/// The decision about a step.
#[derive(Clone, Debug)]
pub struct Verdict {
    decision: StepDecision,
    /// Whether clipping is on, so that gradients may be scaled.
    clips: bool,
    /// Whether the step is taken, `[1]`; computed on first use.
    taken: Rc<OnceCell<Tensor<1, Bool>>>,
}

impl Verdict {
    /// Builds the decision about a step whose numbers are on the device. `before` says whether all previous steps were
    /// taken, 1 or 0, `[1]`; gradients are clipped to a norm of `limit` unless that is 0. `None` if there is no loss or
    /// no gradient.
    pub fn new(gradient: &Gradient, limit: f64, before: Option<Tensor<1>>) -> Option<Self> {
        let loss = gradient.output.unread.loss()?.cast(FloatDType::F32);
        let squares = gradient.squares.clone()?;
        let clips = limit > 0.0;
        Some(Self {
            decision: kernel::decide_step(loss, squares, clips.then_some(limit), before),
            clips,
            taken: Rc::default(),
        })
    }

    /// Returns whether the step is taken, 1 or 0, `[1]`.
    pub fn taken(&self) -> Tensor<1> {
        self.decision.is_taken()
    }

    /// Returns the underlying decision tensors.
    pub fn decision(&self) -> &StepDecision {
        &self.decision
    }

    /// Returns the decision for a gradient that is already scaled.
    pub fn unscaled(&self) -> StepDecision {
        self.decision.without_scale()
    }

    /// Scales a gradient to what the optimizer receives.
    pub fn scaled<const D: usize>(&self, gradient: Tensor<D>) -> Tensor<D> {
        if !self.clips {
            return gradient;
        }
        let factor = self.decision.factor::<D>();
        let dtype = gradient.dtype();
        gradient * factor.cast(FloatDType::from(dtype))
    }

    /// Returns the new value if the step is taken, else the old one.
    pub fn select<const D: usize>(&self, new: Tensor<D>, old: Tensor<D>) -> Tensor<D> {
        let taken = self.taken.get_or_init(|| self.taken().not_equal_elem(0.0));
        let taken = taken.clone().reshape([1; D]).expand(new.dims());
        old.mask_where(taken, new)
    }

    /// Returns a value that did not exist before: zeros if the step is not taken.
    pub fn zero_unless_taken<const D: usize>(&self, new: Tensor<D>) -> Tensor<D> {
        let zeros = new.zeros_like();
        self.select(new, zeros)
    }

    /// Replaces the module's values that are in `before` by the chosen ones: its own if the step is taken, else the old ones.
    pub fn restore_unless_taken<M: Module>(&self, model: M, before: GradientsParams) -> M {
        model.map(&mut OldValues {
            verdict: self,
            before,
        })
    }

    /// Runs an update under this decision; small parameters share kernel launches.
    pub fn run_under<T>(&self, update: impl FnOnce() -> T) -> T {
        CURRENT.set(Some(self.clone()));
        let done = kernel::batch_launches(update);
        CURRENT.set(None);
        done
    }

    /// Returns the decision about the update in progress; `None` if the host has decided.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }
}

struct OldValues<'a> {
    verdict: &'a Verdict,
    before: GradientsParams,
}

impl ModuleMapper for OldValues<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(before) = self.before.remove::<D>(param.id) else {
            return param;
        };
        let (id, own, mapper) = param.consume();
        let tracked = own.device().is_autodiff();
        let value = self.verdict.select(kernel::untracked(own), before);
        let value = match tracked {
            true => Tensor::from_inner(value),
            false => value,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
