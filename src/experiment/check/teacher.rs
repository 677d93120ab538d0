//! Checks the frozen run beside one that trains, a teacher or a reference: whether it exists, and whether both fit together.

use super::{Checker, Purpose, data};
use crate::experiment::teacher;

/// Checks the frozen run that `[task]` uses.
pub(super) fn check(sense: &mut Checker, what: Purpose) {
    let experiment = &sense.loaded.experiment;
    if experiment.task.frozen_run().is_none() {
        return;
    }
    let Some(named) = teacher::frozen_run(experiment) else {
        let rule = format!(
            "kind = \"{}\" has no reference: set [init] from, the run that training begins from and is compared with, or name \
             another run as reference",
            experiment.task.kind()
        );
        sense.fault(&["task.kind"], rule);
        return;
    };
    if let Err(error) = named.which() {
        let message = error.to_string();
        let rule = message.split_once("] ").map_or(&*message, |(_, rule)| rule);
        sense.fault(&[named.checkpoint_key], rule);
    }
    if experiment.train.carry_state {
        let rule = format!(
            "carry_state = true cannot be combined with a {}, which does not carry its state beside the model's: remove one of them",
            named.role
        );
        sense.fault(&["train.carry_state", named.key], rule);
    }
    if !what.is_new_run() {
        return;
    }
    // The run that training starts from is checked together with the data.
    if !named.is_initial_run() {
        let found = named.folder(&sense.loaded.places());
        data::report_missing_run(sense, named.key, found.err(), what);
    }
    let other = teacher::planned_experiment(sense.loaded);
    let misfit = other.and_then(|other| teacher::key_conflict(experiment, &other));
    if let Some((keys, rule)) = misfit {
        sense.fault(&keys, rule);
    }
}
