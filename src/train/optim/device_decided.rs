//! Optimizer states that keep their old values if a step is not taken, and that are read from files on the host.

use super::adam::{Adam, AdamState};
use super::ademamix::Ademamix;
use super::adopt::Adopt;
use super::cautious::{CautiousAdamw, CautiousLion};
use super::lion::Lion;
use super::means::{Means, MeansOptimizer, ThreeMeans, TwoMeans};
use super::muon::{Muon, MuonState};
use super::nadam::Nadam;
use super::radam::Radam;
use super::schedule_free::{ScheduleFree, ScheduleFreeState};
use super::sgd::{Sgd, SgdState};
use super::soap::{Preconditioner, Soap, SoapState};
use crate::device;
use crate::train::verdict::Verdict;
use burn::optim::{
    Adafactor, AdafactorState, Lamb, LambState, LearningRate, LionState, Optimizer, RecordState,
    StateSink, StateSource,
};
use burn::tensor::{Device, Tensor};

/// A state that can be replaced by its old value.
pub trait Revertible: Sized {
    /// Returns this state if the step is taken, else the old one, which may be missing.
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self;
}

fn select_tensor<const D: usize>(
    new: Tensor<D>,
    old: Option<Tensor<D>>,
    verdict: &Verdict,
) -> Tensor<D> {
    match old {
        Some(old) => verdict.select(new, old),
        None => verdict.zero_unless_taken(new),
    }
}

impl<const D: usize> Revertible for LambState<D> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        let (first, second) = old.map(|old| (old.moment_1, old.moment_2)).unzip();
        Self {
            time: self.time,
            moment_1: select_tensor(self.moment_1, first, verdict),
            moment_2: select_tensor(self.moment_2, second, verdict),
        }
    }
}

impl<const D: usize> Revertible for LionState<D> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        Self {
            momentum: select_tensor(self.momentum, old.map(|old| old.momentum), verdict),
        }
    }
}

impl<const D: usize> Revertible for MuonState<D> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        Self {
            buffer: select_tensor(self.buffer, old.map(|old| old.buffer), verdict),
        }
    }
}

impl<const D: usize> Revertible for AdafactorState<D> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        let (rows, columns) = match old {
            Some(old) => (Some(old.second_moment), old.column_second_moment),
            None => (None, None),
        };
        let own = self.column_second_moment;
        Self {
            time: self.time,
            second_moment: select_tensor(self.second_moment, rows, verdict),
            column_second_moment: own.map(|new| select_tensor(new, columns, verdict)),
        }
    }
}

impl<const D: usize> Revertible for ScheduleFreeState<D> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        let (base, second) = old.map(|old| (old.base, old.second)).unzip();
        Self {
            time: self.time,
            base: select_tensor(self.base, base, verdict),
            second: select_tensor(self.second, second, verdict),
        }
    }
}

impl<const D: usize> Revertible for SoapState<D> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        let (first, second, sides) = match old {
            Some(old) => (Some(old.first), Some(old.second), Some(old.sides)),
            None => (None, None, None),
        };
        let mut sides = sides.into_iter().flatten();
        Self {
            time: self.time,
            first: select_tensor(self.first, first, verdict),
            second: select_tensor(self.second, second, verdict),
            sides: self.sides.map(|side| {
                let (gram, basis) = sides
                    .next()
                    .flatten()
                    .map(|old| (old.gram, old.basis))
                    .unzip();
                side.map(|new| Preconditioner {
                    gram: select_tensor(new.gram, gram, verdict),
                    basis: select_tensor(new.basis, basis, verdict),
                })
            }),
        }
    }
}

impl<const D: usize, const N: usize> Revertible for Means<D, N> {
    fn revert_unless_taken(self, old: Option<Self>, verdict: &Verdict) -> Self {
        let mut old = old.map(|old| old.values.into_iter());
        let values = self.values.map(|new| {
            let old = old.as_mut().and_then(Iterator::next);
            select_tensor(new, old, verdict)
        });
        Self {
            time: self.time,
            values,
        }
    }
}

/// An optimizer whose step can be decided on the device.
pub trait DeviceDecided: Optimizer {
    /// Takes a step with a gradient that the decision scales; everything keeps its old value if the step is not taken.
    fn step_if<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
        verdict: &Verdict,
    ) -> (Tensor<D>, Option<Self::State<D>>);
}

/// Optimizers without a kernel that reads decisions: the old values are kept during the step, and the result is
/// selected afterwards.
macro_rules! decided {
    ($($optimizer:ty, $state:ident;)*) => {$(
        impl DeviceDecided for $optimizer {
            fn step_if<const D: usize>(
                &self,
                lr: LearningRate,
                tensor: Tensor<D>,
                grad: Tensor<D>,
                state: Option<$state<D>>,
                verdict: &Verdict,
            ) -> (Tensor<D>, Option<$state<D>>) {
                let (old, before) = (tensor.clone(), state.clone());
                let (tensor, state) = self.step(lr, tensor, verdict.scaled(grad), state);
                let state = state.map(|state| state.revert_unless_taken(before, verdict));
                (verdict.select(tensor, old), state)
            }
        }
    )*};
}

decided! {
    Adafactor, AdafactorState;
    Lamb, LambState;
    Muon, MuonState;
    CautiousAdamw, TwoMeans;
    CautiousLion, LionState;
    ScheduleFree, ScheduleFreeState;
    Soap, SoapState;
}

/// Elementwise optimizers, which use a kernel that reads decisions if the device has one.
macro_rules! elementwise {
    ($($optimizer:ty, $state:ident;)*) => {$(
        impl DeviceDecided for $optimizer {
            fn step_if<const D: usize>(
                &self,
                lr: LearningRate,
                tensor: Tensor<D>,
                grad: Tensor<D>,
                state: Option<$state<D>>,
                verdict: &Verdict,
            ) -> (Tensor<D>, Option<$state<D>>) {
                self.take_step(lr, tensor, grad, state, Some(verdict))
            }
        }
    )*};
}

elementwise! {
    Adam, AdamState;
    Sgd, SgdState;
    Lion, LionState;
    Radam, TwoMeans;
    Nadam, TwoMeans;
    Adopt, TwoMeans;
    Ademamix, ThreeMeans;
}

/// A state whose records are read on the host: Burn would read them on its default device, the first GPU that it was
/// compiled for. The first step moves a state to the device of its parameter.
#[derive(Clone)]
pub struct HostLoaded<S>(pub S);

impl<S: RecordState> RecordState for HostLoaded<S> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        self.0.state_flatten(prefix, out);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, _device: &Device) -> Option<Self> {
        S::state_unflatten(prefix, src, &device::host()).map(Self)
    }
}
