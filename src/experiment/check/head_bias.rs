//! Checks `[model] head_bias` for a task with its own output head. A preset, an imported model or an extended file sets how the
//! model scores a vocabulary, and a task that scores none ignores it. An experiment that sets the key itself means the bias of
//! the task's head, which is another key.

use super::{Checker, Purpose};
use crate::experiment::Origin;
use crate::train::run_dir::RESOLVED;

const KEY: &str = "model.head_bias";

pub(super) fn check(sense: &mut Checker, what: Purpose) {
    let loaded = sense.loaded;
    let experiment = &loaded.experiment;
    // Recurrent cells and towers report this themselves.
    let ignores = experiment.model.facts().transformer().is_some();
    if !what.is_new_run()
        || !ignores
        || experiment.task.network_use().scores_tokens()
        || !is_own(sense)
    {
        return;
    }
    let kind = experiment.task.kind();
    sense.fault(
        &[KEY],
        format!(
            "head_bias has no effect: it applies to scores of the vocabulary, and [task] kind = \"{kind}\" has its own head, \
             whose bias is [task] head_bias if it has that key; remove it"
        ),
    );
}

/// Whether the experiment itself sets the key; a resolved file, which has all keys, does not count.
fn is_own(sense: &Checker) -> bool {
    match sense.loaded.origin(KEY) {
        Origin::File { path, .. } => *path == sense.loaded.path && !path.ends_with(RESOLVED),
        Origin::Set(_) => true,
        Origin::Preset { .. } | Origin::Default => false,
    }
}
