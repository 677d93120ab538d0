//! `[model] head_bias` beside a task with a head of its own. A preset, an imported model and a file that is extended say how
//! they score a vocabulary, and a task that scores none passes over it; an experiment that says so itself means the bias of
//! the task's head, which is another key.

use super::{For, Sense};
use crate::experiment::Origin;
use crate::train::run_dir::RESOLVED;

const KEY: &str = "model.head_bias";

pub(super) fn check(sense: &mut Sense, what: For) {
    let loaded = sense.loaded;
    let experiment = &loaded.experiment;
    // Recurrent cells and towers say so themselves.
    let ignores = experiment.model.facts().transformer().is_some();
    if !what.begins() || !ignores || experiment.task.uses().scores_tokens() || !is_own(sense) {
        return;
    }
    let kind = experiment.task.kind();
    sense.fault(
        &[KEY],
        format!(
            "head_bias has no effect: it is about scores of the vocabulary, and [task] kind = \"{kind}\" has a head of its own, \
             whose bias is [task] head_bias where it has that key; leave it out"
        ),
    );
}

/// Whether the experiment itself writes the key; a resolved file has all keys.
fn is_own(sense: &Sense) -> bool {
    match sense.loaded.origin(KEY) {
        Origin::File { path, .. } => *path == sense.loaded.path && !path.ends_with(RESOLVED),
        Origin::Set(_) => true,
        Origin::Preset { .. } | Origin::Default => false,
    }
}
