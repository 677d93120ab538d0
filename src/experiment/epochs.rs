//! `[train] epochs`: a training length in passes over the data, converted to steps once the data is read.

use super::{Experiment, LoadedExperiment, Origin, check};
use crate::data::Data;
use crate::error::Result;
use crate::train::TrainConfig;
use std::collections::BTreeMap;
use std::path::Path;

/// Keeps the one of `steps` and `epochs` that was set later: the file overrides a file it extends, and `--set` overrides both.
/// If both are set in one place, both stay, and [`check`] refuses them.
pub(super) fn keep_latest(
    train: &mut TrainConfig,
    file: &Path,
    origins: &BTreeMap<String, Origin>,
) {
    let [steps, epochs] = [STEPS, EPOCHS].map(|key| precedence(key, file, origins));
    if train.epochs.is_some() && epochs > steps {
        train.steps = 0;
    } else if steps > epochs {
        train.epochs = None;
    }
}

const STEPS: &str = "train.steps";
const EPOCHS: &str = "train.epochs";

/// Precedence of where a key was set; 0 if no file has it.
fn precedence(key: &str, file: &Path, origins: &BTreeMap<String, Origin>) -> u8 {
    match origins.get(key) {
        None | Some(Origin::Default | Origin::Preset { .. }) => 0,
        Some(Origin::File { path, .. }) => 1 + u8::from(path == file),
        Some(Origin::Set(_)) => 3,
    }
}

/// The epochs that the steps of a settled experiment were computed from, and where they were set.
pub(super) fn source_epochs(loaded: &LoadedExperiment) -> Option<(&toml::Value, &Origin)> {
    let [steps, epochs] = [STEPS, EPOCHS].map(|key| precedence(key, &loaded.path, &loaded.origins));
    let is_settled = loaded.experiment.train.epochs.is_none() && epochs > steps;
    let written = loaded.written_values.get(EPOCHS).filter(|_| is_settled)?;
    Some((written, loaded.origin(EPOCHS)))
}

/// Returns the experiment with its epochs converted to steps of its data; none if it has steps already.
///
/// # Errors
/// If other settings do not fit this number of steps.
pub fn with_steps(loaded: &LoadedExperiment, data: &Data) -> Result<Option<LoadedExperiment>> {
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

/// Returns the number of steps that the experiment's epochs amount to, if it has epochs.
pub fn steps(experiment: &Experiment, data: &Data) -> Option<u64> {
    let epochs = experiment.train.epochs?;
    let order = experiment.train.order(experiment.seed);
    let order = order.repeated(experiment.task.facts().updates_per_batch());
    Some(order.steps_in(data.train.as_ref(), epochs).max(1))
}
