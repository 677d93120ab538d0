//! The sense of averages of the weights: `[train] ema`, and an optimizer's own average.

use super::Sense;
use crate::train::config::Dtype;

/// Faults of keys beside an optimizer that has an average of its own.
pub(super) fn check(sense: &mut Sense) {
    let experiment = &sense.loaded.experiment;
    if experiment.optimizer.averaging(0).is_none() {
        return;
    }
    if !experiment.schedule.stays() {
        sense.fault(
            &["schedule.kind", "optimizer.kind"],
            "kind = \"schedule_free\" of [optimizer] averages steps of one learning rate and needs kind = \"constant\", which may \
             begin with warmup_steps",
        );
    }
    if experiment.train.ema.is_some() {
        sense.fault(
            &["train.ema", "optimizer.kind"],
            "ema has no effect: evaluations use the average that kind = \"schedule_free\" of [optimizer] keeps; leave it out",
        );
    }
}

/// A fault of training alone: such a run can still be used.
pub(super) fn of_training(sense: &mut Sense) {
    let experiment = &sense.loaded.experiment;
    let halves = match experiment.train.dtype {
        Dtype::Bf16 | Dtype::F16 => true,
        Dtype::F32 | Dtype::MixedBf16 => false,
    };
    if !halves {
        return;
    }
    let stands =
        "an average of 16-bit weights stands still, since its steps are below their last digit";
    if experiment.train.ema.is_some() {
        let rule =
            format!("ema needs dtype = \"f32\" or \"mixed_bf16\": {stands}; leave one of them out");
        sense.fault(&["train.ema", "train.dtype"], rule);
    }
    if experiment.optimizer.averaging(0).is_some() {
        let rule =
            format!("kind = \"schedule_free\" needs dtype = \"f32\" or \"mixed_bf16\": {stands}");
        sense.fault(&["optimizer.kind", "train.dtype"], rule);
    }
}
