//! The maximum text length that a model was made for. A run that starts from another one often truncates its texts to a shorter
//! length, but its model can still read texts as long as the original model can.

use super::{folder, text_source};
use crate::data::{Limit, SearchPath, Shape};
use crate::error::Result;
use crate::experiment::{Experiment, file, initial, run_contents};
use crate::train::run_dir;
use std::path::Path;

/// Maximum number of predecessors that are followed for runs of earlier versions.
const MAX_PREDECESSORS: usize = 16;

/// Records in the data's shape the length limit of the run that the experiment starts from, if it exceeds the experiment's own.
///
/// # Errors
/// If files of that run are damaged.
pub(in crate::experiment) fn inherit_limit(
    experiment: &Experiment,
    places: &SearchPath,
    shape: &mut Shape,
) -> Result<()> {
    // A missing run is reported when its weights are taken.
    if let Some(Ok(folder)) =
        text_source(experiment).map(|one| folder(&one, experiment.seed, places))
    {
        shape.limit = beyond(Some(limit_of_run(&folder)?), own(experiment, shape));
    }
    Ok(())
}

/// Returns the length limit of a run if it exceeds the run's own texts: the recorded one or, for a run of an earlier version,
/// that of the run it began from, if that still exists.
///
/// # Errors
/// If files of the run are damaged.
pub(in crate::experiment) fn length_limit(
    folder: &Path,
    experiment: &Experiment,
    shape: &Shape,
) -> Result<Option<Limit>> {
    let limit = match shape.limit {
        Some(limit) => Some(limit),
        None => inherited_limit(folder, MAX_PREDECESSORS)?,
    };
    Ok(beyond(limit, own(experiment, shape)))
}

/// The length limit of a run.
fn limit_of_run(folder: &Path) -> Result<Limit> {
    find_limit(folder, MAX_PREDECESSORS)
}

fn find_limit(folder: &Path, followed: usize) -> Result<Limit> {
    let shape = run_contents::shape(folder)?;
    let experiment = file::load(&folder.join(run_dir::RESOLVED), &[])?.experiment;
    let own = own(&experiment, &shape);
    let limit = match shape.limit {
        Some(limit) => Some(limit),
        None => inherited_limit(folder, followed)?,
    };
    Ok(limit.map_or(own, |limit| limit.elementwise_max(own)))
}

/// The length limit of the text model that a run began from.
fn inherited_limit(folder: &Path, followed: usize) -> Result<Option<Limit>> {
    let Some(followed) = followed.checked_sub(1) else {
        return Ok(None);
    };
    let all = initial::read(folder)?;
    let of_texts = all.iter().find(|one| one.key != "init.image.from");
    let Some(one) = of_texts.map(|one| Path::new(&one.run)) else {
        return Ok(None);
    };
    // The run may have been deleted or replaced by another one.
    Ok(run_dir::is_run(one)
        .then(|| find_limit(one, followed).ok())
        .flatten())
}

/// The run's own limit. Only an imported run truncates texts to fewer tokens than it has positions.
fn own(experiment: &Experiment, shape: &Shape) -> Limit {
    Limit {
        positions: shape.context,
        read: shape.context.min(experiment.data.context()),
    }
}

fn beyond(limit: Option<Limit>, own: Limit) -> Option<Limit> {
    let both = limit?.elementwise_max(own);
    (both != own).then_some(both)
}
