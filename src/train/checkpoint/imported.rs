//! The checkpoint of weights that no run of ours has trained.

use super::{LATEST, MODEL, STATE, State, format, name, place};
use crate::error::{Error, Result};
use crate::files;
use crate::train::manifest::{self, write_json};
use crate::train::run_dir::RunDir;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Writes the checkpoint of step 0 of a run whose weights come from elsewhere, `shapes` by their paths, each read when
/// its turn comes. It has no optimizer's state: the run can be used, and not be resumed.
///
/// # Errors
/// When the disk refuses, and what `read` returns.
pub fn import(
    run: &RunDir,
    shapes: &BTreeMap<String, Vec<usize>>,
    read: &mut dyn FnMut(&str) -> Result<Vec<f32>>,
) -> Result<PathBuf> {
    let steps = run.steps();
    let partial = steps.join(format!("{}.tmp", name(0)));
    let target = steps.join(name(0));
    files::delete_folder(&partial)?;
    std::fs::create_dir(&partial).map_err(Error::io("create", &partial))?;
    format::write_floats(&partial.join(MODEL), shapes, read)?;
    write_json(&partial.join(STATE), &State::default())?;
    manifest::seal(&partial, &[MODEL, STATE])?;
    place::put(&partial, &target)?;
    files::sync_folder(&steps)?;
    place::link(run.root(), LATEST, Some(0))?;
    Ok(target)
}
