//! An adapter that gives an optimizer the form that Burn requires: its states have any rank and are read on the host,
//! its learning rate is scaled, and its steps may be decided on the device.

use super::adam::{Adam, AdamState};
use super::ademamix::Ademamix;
use super::adopt::Adopt;
use super::cautious::{CautiousAdamw, CautiousLion};
use super::device_decided::{DeviceDecided, HostLoaded};
use super::groups::Cluster;
use super::lion::Lion;
use super::means::{ThreeMeans, TwoMeans};
use super::muon::{Muon, MuonState};
use super::nadam::Nadam;
use super::radam::Radam;
use super::schedule_free::{ScheduleFree, ScheduleFreeState};
use super::sgd::{Sgd, SgdState};
use super::soap::{Soap, SoapState};
use crate::train::verdict::Verdict;
use burn::module::ParamGroup;
use burn::optim::{
    Adafactor, AdafactorState, Lamb, LambState, LearningRate, LionState, ModuleOptimizer, Optimizer,
};
use burn::tensor::{Device, Tensor};

/// Adds the update of one cluster; the first cluster becomes the fallback that Burn requires.
pub(super) fn add_cluster<O>(
    to: Option<ModuleOptimizer>,
    cluster: Cluster,
    optimizer: O,
) -> ModuleOptimizer
where
    Scaled<O>: Optimizer,
{
    let scaled = Scaled {
        optimizer,
        lr_scale: cluster.settings.lr_scale,
    };
    match to {
        None => scaled.into(),
        Some(to) => to.with_group(ParamGroup::from_ids(cluster.ids), scaled, None),
    }
}

/// An optimizer with a scaled learning rate, whose steps may be decided on the device.
#[derive(Clone)]
pub(super) struct Scaled<O> {
    optimizer: O,
    lr_scale: f64,
}

/// Implements Burn's `Optimizer` for each optimizer separately, because Rust has no bound on a state of any rank.
macro_rules! held {
    ($($optimizer:ty, $state:ident;)*) => {$(
        impl Optimizer for Scaled<$optimizer> {
            type State<const D: usize> = HostLoaded<$state<D>>;

            fn step<const D: usize>(
                &self,
                lr: LearningRate,
                tensor: Tensor<D>,
                grad: Tensor<D>,
                state: Option<HostLoaded<$state<D>>>,
            ) -> (Tensor<D>, Option<HostLoaded<$state<D>>>) {
                let (lr, state) = (lr * self.lr_scale, state.map(|held| held.0));
                let Some(verdict) = Verdict::current() else {
                    let (tensor, state) = self.optimizer.step(lr, tensor, grad, state);
                    return (tensor, state.map(HostLoaded));
                };
                let (tensor, state) = self.optimizer.step_if(lr, tensor, grad, state, &verdict);
                (tensor, state.map(HostLoaded))
            }

            fn to_device<const D: usize>(
                state: HostLoaded<$state<D>>,
                device: &Device,
            ) -> HostLoaded<$state<D>> {
                HostLoaded(<$optimizer as Optimizer>::to_device(state.0, device))
            }
        }
    )*};
}

held! {
    Adam, AdamState;
    Sgd, SgdState;
    Lion, LionState;
    Adafactor, AdafactorState;
    Lamb, LambState;
    Muon, MuonState;
    Radam, TwoMeans;
    Nadam, TwoMeans;
    Adopt, TwoMeans;
    Ademamix, ThreeMeans;
    CautiousAdamw, TwoMeans;
    CautiousLion, LionState;
    ScheduleFree, ScheduleFreeState;
    Soap, SoapState;
}
