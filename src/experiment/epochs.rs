//! `[train] epochs`: a length in passes over the data, which becomes steps once the data is read.

use super::{Experiment, Loaded, Origin, check};
use crate::data::Data;
use crate::error::Result;
use crate::train::TrainConfig;
use std::collections::BTreeMap;
use std::path::Path;

/// Of steps and epochs the one that was written later: over a file that is extended counts the file, over both a `--set`.
/// Two in one place stay, for [`check`] to refuse.
pub(super) fn keep_later(train: &mut TrainConfig, file: &Path, origins: &BTreeMap<String, Origin>) {
    let [steps, epochs] = [STEPS, EPOCHS].map(|key| age(key, file, origins));
    if train.epochs.is_some() && epochs > steps {
        train.steps = 0;
    } else if steps > epochs {
        train.epochs = None;
    }
}

const STEPS: &str = "train.steps";
const EPOCHS: &str = "train.epochs";

/// How late a key was written; 0 for one that no file has.
fn age(key: &str, file: &Path, origins: &BTreeMap<String, Origin>) -> u8 {
    match origins.get(key) {
        None | Some(Origin::Default | Origin::Preset { .. }) => 0,
        Some(Origin::File { path, .. }) => 1 + u8::from(path == file),
        Some(Origin::Set(_)) => 3,
    }
}

/// The epochs that the steps of a settled experiment were made of, and where they were written.
pub(super) fn of_steps(loaded: &Loaded) -> Option<(&toml::Value, &Origin)> {
    let [steps, epochs] = [STEPS, EPOCHS].map(|key| age(key, &loaded.path, &loaded.origins));
    let is_settled = loaded.experiment.train.epochs.is_none() && epochs > steps;
    let written = loaded.written.get(EPOCHS).filter(|_| is_settled)?;
    Some((written, loaded.origin(EPOCHS)))
}

/// The experiment with the steps that its epochs make of its data; none where it has steps already.
///
/// # Errors
/// What else of it does not go with so many steps.
pub fn settled(loaded: &Loaded, data: &Data) -> Result<Option<Loaded>> {
    let Some(steps) = steps(&loaded.experiment, data) else {
        return Ok(None);
    };
    let mut settled = loaded.clone();
    (
        settled.experiment.train.steps,
        settled.experiment.train.epochs,
    ) = (steps, None);
    check(&settled)?;
    Ok(Some(settled))
}

/// The steps that the epochs of an experiment make of its data, where it has epochs.
pub fn steps(experiment: &Experiment, data: &Data) -> Option<u64> {
    let epochs = experiment.train.epochs?;
    let order = experiment.train.order(experiment.seed);
    let order = order.repeated(experiment.task.facts().updates());
    Some(order.steps_in(data.train.as_ref(), epochs).max(1))
}
