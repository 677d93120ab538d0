//! Checks averages of the weights: `[train] ema`, and an optimizer's own average.

use super::Checker;
use crate::train::config::Dtype;

/// Checks the keys that conflict with an average of the optimizer's own or with a teacher average.
pub(super) fn check(sense: &mut Checker) {
    check_teacher_average(sense);
    let experiment = &sense.loaded.experiment;
    if experiment.optimizer.averaging(0).is_none() {
        return;
    }
    if !experiment.schedule.is_constant() {
        sense.fault(
            &["schedule.kind", "optimizer.kind"],
            "kind = \"schedule_free\" of [optimizer] averages steps of one learning rate and needs kind = \"constant\", which \
             can begin with warmup_steps",
        );
    }
    if experiment.train.ema.is_some() {
        sense.fault(
            &["train.ema", "optimizer.kind"],
            "ema has no effect: evaluations use the average of [optimizer] kind = \"schedule_free\"; remove it",
        );
    }
}

/// Reports another average beside the teacher average of a task.
fn check_teacher_average(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    if experiment.task.facts().teacher_momentum().is_none() {
        return;
    }
    let kind = experiment.task.kind();
    if experiment.train.ema.is_some() {
        let rule = format!(
            "ema has no effect: evaluations use the teacher of [task] kind = \"{kind}\", which is an average \
             (teacher_momentum); remove it"
        );
        sense.fault(&["train.ema", "task.kind"], rule);
    }
    if experiment.optimizer.averaging(0).is_some() {
        let rule = format!(
            "kind = \"schedule_free\" keeps its own average, but the teacher of [task] kind = \"{kind}\" is an average of the \
             trained weights; use \"adamw\""
        );
        sense.fault(&["optimizer.kind", "task.kind"], rule);
    }
}

/// Reports 16-bit weights that are averaged. Only training is affected: such a run can still be used.
pub(super) fn check_precision(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let halves = match experiment.train.dtype {
        Dtype::Bf16 | Dtype::F16 => true,
        Dtype::F32 | Dtype::MixedBf16 => false,
    };
    if !halves {
        return;
    }
    let stands = "an average of 16-bit weights does not change, because its steps are below their last digit";
    if experiment.train.ema.is_some() {
        let rule =
            format!("ema needs dtype = \"f32\" or \"mixed_bf16\": {stands}; remove one of them");
        sense.fault(&["train.ema", "train.dtype"], rule);
    }
    if experiment.task.facts().teacher_momentum().is_some() {
        let rule = format!(
            "the teacher of [task] kind = \"{}\" needs dtype = \"f32\" or \"mixed_bf16\": {stands}",
            experiment.task.kind()
        );
        sense.fault(&["train.dtype", "task.kind"], rule);
    }
    if experiment.optimizer.averaging(0).is_some() {
        let rule =
            format!("kind = \"schedule_free\" needs dtype = \"f32\" or \"mixed_bf16\": {stands}");
        sense.fault(&["optimizer.kind", "train.dtype"], rule);
    }
}
