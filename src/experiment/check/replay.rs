//! Checks `[train] replay`: training steps that a GPU records and replays.

use super::Checker;
use crate::device::DeviceName;
use crate::train::config::Dtype;

pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let c = &experiment.train;
    if !c.replay {
        return;
    }
    let device = c.device.parse::<DeviceName>();
    if device.is_ok_and(DeviceName::is_cpu) {
        let rule = format!(
            "replay = true has no effect: device = \"{}\" has no recordings of launches, which GPUs have; leave it out",
            c.device
        );
        sense.fault(&["train.replay", "train.device"], rule);
    }
    if !experiment.optimizer.updates_in_place() {
        sense.fault(
            &["train.replay", "optimizer.cautious", "optimizer.kind"],
            "replay = true needs an optimizer that moves weights and moments in place: kind = \"adamw\" or \"lion\" where they are not \
             cautious, \"adam\", \"sgd\", \"radam\", \"nadam\", \"adopt\" or \"ademamix\" of [optimizer]; leave replay out",
        );
    }
    if c.decides_on_host() {
        sense.fault(
            &["train.replay", "train.on_divergence", "train.spike_factor"],
            "replay = true needs steps that the host does not decide on: on_divergence = \"stop\" and no spike_factor; leave it out",
        );
    }
    if c.carry_state {
        sense.fault(
            &["train.replay", "train.carry_state"],
            "replay = true has no place for the state that rows pass on; leave it or carry_state out",
        );
    }
    if matches!(c.dtype, Dtype::Bf16 | Dtype::F16) {
        sense.fault(
            &["train.replay", "train.dtype"],
            "replay = true needs dtype = \"f32\" or \"mixed_bf16\": weights of 16 bits are not moved in place; leave it out",
        );
    }
}
