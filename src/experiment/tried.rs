//! Keys of a finished run that one command tries out: `--set decode.search.length_penalty.alpha=1`.

use super::file::{load_text, resolved_toml};
use super::{Experiment, check};
use crate::error::{Error, Result};
use crate::train::run_dir;
use std::path::Path;

/// The experiment of a run with these keys set, each of them of one of the `tables`; nothing is written.
///
/// # Errors
/// A key of another table; those of the experiment that this makes.
pub fn with_keys(
    experiment: &Experiment,
    folder: &Path,
    sets: &[String],
    tables: &[&str],
) -> Result<Experiment> {
    if sets.is_empty() {
        return Ok(experiment.clone());
    }
    for set in sets {
        let key = set.split('=').next().unwrap_or_default().trim();
        let table = key.split('.').next().unwrap_or_default();
        if !tables.contains(&table) || !key.contains('.') {
            let known: Vec<String> = tables.iter().map(|table| format!("`{table}.`")).collect();
            return Err(Error::usage(format!(
                "--set {set}: the run is trained; keys that can be tried out begin with {}",
                known.join(" or ")
            )));
        }
    }
    let loaded = load_text(
        &folder.join(run_dir::RESOLVED),
        resolved_toml(experiment),
        sets,
    )?;
    check::check_without_files(&loaded)?;
    Ok(loaded.experiment)
}
