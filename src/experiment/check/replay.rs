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
            "replay = true has no effect: device = \"{}\" cannot record launches, which only GPUs can; remove it",
            c.device
        );
        sense.fault(&["train.replay", "train.device"], rule);
    }
    if !experiment.optimizer.updates_in_place() {
        sense.fault(
            &["train.replay", "optimizer.cautious", "optimizer.kind"],
            "replay = true needs an optimizer that updates weights and moments in place: [optimizer] kind = \"adamw\" or \
             \"lion\" without cautious, \"adam\", \"sgd\", \"radam\", \"nadam\", \"adopt\" or \"ademamix\"; use one of them or \
             remove replay",
        );
    }
    if c.decides_on_host() {
        sense.fault(
            &["train.replay", "train.on_divergence", "train.spike_factor"],
            "replay = true needs steps without decisions of the host: on_divergence = \"stop\" and no spike_factor; set these \
             or remove replay",
        );
    }
    if c.carry_state {
        sense.fault(
            &["train.replay", "train.carry_state"],
            "replay = true cannot record the state that rows pass on; remove it or carry_state",
        );
    }
    if matches!(c.dtype, Dtype::Bf16 | Dtype::F16) {
        sense.fault(
            &["train.replay", "train.dtype"],
            "replay = true needs dtype = \"f32\" or \"mixed_bf16\": 16-bit weights are not updated in place; remove it",
        );
    }
}
