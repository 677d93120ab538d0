//! What is decided about a step on its device: how much its gradients are scaled down, and whether it is taken at all.
//!
//! The host queues the next steps before it knows the numbers of this one. So the decision is a tensor that the optimizer, the
//! averages and the running averages of norms read: with a bad loss or gradient, every value stays what it was. A decision
//! includes those of the steps before: after a bad step nothing moves, until the host has seen it.

use super::gradients::Gradient;
use crate::kernel::{self, Decision};
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, FloatDType, Tensor};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

thread_local! {
    /// The decision about the update that this thread makes: Burn hands an optimizer a gradient and nothing else.
    static PRESENT: RefCell<Option<Verdict>> = const { RefCell::new(None) };
}

/// The decision about a step.
#[derive(Clone, Debug)]
pub struct Verdict {
    decision: Decision,
    /// Whether it may scale gradients.
    clips: bool,
    /// Whether the step is taken, `[1]`, where that was asked for.
    taken: Rc<OnceCell<Tensor<1, Bool>>>,
}

impl Verdict {
    /// The decision about a step whose numbers are on the device, behind steps of which `before` says whether all were taken,
    /// 1 or 0, `[1]`; clipped to a norm of `limit` unless that is 0. None where there is no loss or no gradient.
    pub fn new(gradient: &Gradient, limit: f64, before: Option<Tensor<1>>) -> Option<Self> {
        let loss = gradient.output.unread.loss()?.cast(FloatDType::F32);
        let squares = gradient.squares.clone()?;
        let clips = limit > 0.0;
        Some(Self {
            decision: kernel::decide(loss, squares, clips.then_some(limit), before),
            clips,
            taken: Rc::default(),
        })
    }

    /// Whether the step is taken, 1 or 0, `[1]`.
    pub fn taken(&self) -> Tensor<1> {
        self.decision.taken()
    }

    /// The decision as numbers.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The same about a gradient that is scaled already.
    pub fn unscaled(&self) -> Decision {
        self.decision.unscaled()
    }

    /// A gradient as the optimizer gets it.
    pub fn scaled<const D: usize>(&self, gradient: Tensor<D>) -> Tensor<D> {
        if !self.clips {
            return gradient;
        }
        let factor = self.decision.factor::<D>();
        let dtype = gradient.dtype();
        gradient * factor.cast(FloatDType::from(dtype))
    }

    /// The new value where the step is taken, else the old one; each with its own shape where the old one is missing.
    pub fn chosen<const D: usize>(&self, new: Tensor<D>, old: Tensor<D>) -> Tensor<D> {
        let taken = self.taken.get_or_init(|| self.taken().not_equal_elem(0.0));
        let taken = taken.clone().reshape([1; D]).expand(new.dims());
        old.mask_where(taken, new)
    }

    /// A value that had none before: zeros where the step is not taken.
    pub fn begun<const D: usize>(&self, new: Tensor<D>) -> Tensor<D> {
        let zeros = new.zeros_like();
        self.chosen(new, zeros)
    }

    /// The module whose values of `before` are chosen between those and its own.
    pub fn kept<M: Module>(&self, model: M, before: GradientsParams) -> M {
        model.map(&mut Kept {
            verdict: self,
            before,
        })
    }

    /// Makes an update under this decision; small parameters share launches.
    pub fn over<T>(&self, update: impl FnOnce() -> T) -> T {
        PRESENT.set(Some(self.clone()));
        let done = kernel::together(update);
        PRESENT.set(None);
        done
    }

    /// The decision about the update that is being made; none where the host has decided.
    pub fn present() -> Option<Self> {
        PRESENT.with_borrow(Clone::clone)
    }
}

struct Kept<'a> {
    verdict: &'a Verdict,
    before: GradientsParams,
}

impl ModuleMapper for Kept<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(before) = self.before.remove::<D>(param.id) else {
            return param;
        };
        let (id, own, mapper) = param.consume();
        let tracked = own.device().is_autodiff();
        let value = self.verdict.chosen(kernel::untracked(own), before);
        let value = match tracked {
            true => Tensor::from_inner(value),
            false => value,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
