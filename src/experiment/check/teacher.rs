//! The sense of a distillation beside its own keys: its teacher's run, and what both have in common.

use super::{For, Sense, data};
use crate::experiment::teacher;

/// All faults of the teacher of `[task]`.
pub(super) fn check(sense: &mut Sense, what: For) {
    let experiment = &sense.loaded.experiment;
    let Some(config) = experiment.task.distillation() else {
        return;
    };
    if let Err(error) = teacher::which(config) {
        let message = error.to_string();
        let rule = message.strip_prefix("[task] ").unwrap_or(&message);
        sense.fault(&["task.teacher_checkpoint"], rule);
    }
    if experiment.train.carry_state {
        sense.fault(
            &["train.carry_state", "task.teacher"],
            "carry_state = true has no teacher that carries its state beside the student's: leave one of them out",
        );
    }
    if !what.begins() {
        return;
    }
    let found = teacher::folder(experiment, &sense.loaded.places());
    data::other_run(sense, "task.teacher", found.err(), what);
    let teacher = teacher::planned(sense.loaded);
    let misfit = teacher.and_then(|teacher| teacher::misfit(experiment, &teacher));
    if let Some((keys, rule)) = misfit {
        sense.fault(keys, rule);
    }
}
