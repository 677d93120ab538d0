//! The checkpoint of imported weights, which no Formwork run has trained.

use super::{LATEST, MODEL, STATE, State, folder_name, folders, format};
use crate::error::{Error, Result};
use crate::files;
use crate::train::manifest::{self, write_json};
use crate::train::run_dir::RunDir;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Writes the checkpoint of step 0 of a run whose weights come from elsewhere. `shapes` is keyed by path; each tensor
/// is read when it is written. The checkpoint has no optimizer state: the run can be used, but not resumed.
///
/// # Errors
/// If the disk cannot be written, and errors of `read`.
pub fn import(
    run: &RunDir,
    shapes: &BTreeMap<String, Vec<usize>>,
    read: &mut dyn FnMut(&str) -> Result<Vec<f32>>,
) -> Result<PathBuf> {
    let steps = run.steps();
    let partial = steps.join(format!("{}.tmp", folder_name(0)));
    let target = steps.join(folder_name(0));
    files::delete_folder(&partial)?;
    std::fs::create_dir(&partial).map_err(Error::io("create", &partial))?;
    format::write_floats(&partial.join(MODEL), shapes, read)?;
    write_json(&partial.join(STATE), &State::default())?;
    manifest::seal(&partial, &[MODEL, STATE])?;
    folders::install(&partial, &target)?;
    files::sync_folder(&steps)?;
    folders::set_link(run.root(), LATEST, Some(0))?;
    Ok(target)
}
