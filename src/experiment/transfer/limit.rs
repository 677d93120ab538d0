//! The longest texts that a model was made for. A run that begins from another one often cuts its texts shorter, and its model reads as
//! long ones as the other.

use super::{folder, of_texts};
use crate::data::{Limit, Places, Shape};
use crate::error::Result;
use crate::experiment::{Experiment, file, initial, saved};
use crate::train::run_dir;
use std::path::Path;

/// How many beginnings of runs of earlier versions are followed: more than any has.
const FOLLOWED: usize = 16;

/// Notes in the shape of data the limit of the run that the experiment begins from, where it is beyond its own.
///
/// # Errors
/// Damaged files of that run.
pub(in crate::experiment) fn of_beginning(
    experiment: &Experiment,
    places: &Places,
    shape: &mut Shape,
) -> Result<()> {
    // A run that is missing is told where its weights are taken.
    if let Some(Ok(folder)) = of_texts(experiment).map(|one| folder(&one, experiment.seed, places))
    {
        shape.limit = beyond(Some(of_run(&folder)?), own(experiment, shape));
    }
    Ok(())
}

/// The limit of a run, where it is beyond its own texts: the one that it noted, or of a run of an earlier version that of the run which
/// it began from, where that is still there.
///
/// # Errors
/// Damaged files of the run.
pub(in crate::experiment) fn noted(
    folder: &Path,
    experiment: &Experiment,
    shape: &Shape,
) -> Result<Option<Limit>> {
    let limit = match shape.limit {
        Some(limit) => Some(limit),
        None => begun(folder, FOLLOWED)?,
    };
    Ok(beyond(limit, own(experiment, shape)))
}

/// The limit of a run.
fn of_run(folder: &Path) -> Result<Limit> {
    found(folder, FOLLOWED)
}

fn found(folder: &Path, followed: usize) -> Result<Limit> {
    let shape = saved::shape(folder)?;
    let experiment = file::load(&folder.join(run_dir::RESOLVED), &[])?.experiment;
    let own = own(&experiment, &shape);
    let limit = match shape.limit {
        Some(limit) => Some(limit),
        None => begun(folder, followed)?,
    };
    Ok(limit.map_or(own, |limit| limit.or(own)))
}

/// The limit of the run of texts that a run began from.
fn begun(folder: &Path, followed: usize) -> Result<Option<Limit>> {
    let Some(followed) = followed.checked_sub(1) else {
        return Ok(None);
    };
    let all = initial::read(folder)?;
    let of_texts = all.iter().find(|one| one.key != "init.image.from");
    let Some(one) = of_texts.map(|one| Path::new(&one.run)) else {
        return Ok(None);
    };
    // It may be gone, or another run be in its place.
    Ok(run_dir::is_run(one)
        .then(|| found(one, followed).ok())
        .flatten())
}

/// What a run reads by itself. Only an imported one cuts texts before its positions end.
fn own(experiment: &Experiment, shape: &Shape) -> Limit {
    Limit {
        positions: shape.context,
        read: shape.context.min(experiment.data.context()),
    }
}

fn beyond(limit: Option<Limit>, own: Limit) -> Option<Limit> {
    let both = limit?.or(own);
    (both != own).then_some(both)
}
