//! Errors for a run's folder given to `train`, and for an experiment file given to `resume`.

use crate::error::{Error, Result, shell_word};
use crate::experiment::{self, run};
use crate::report::read::sweep::SweepFolder;
use crate::train::run_dir;
use std::path::Path;

/// Returns an error if the folder of a run or a sweep is given instead of an experiment.
pub(super) fn require_no_run(path: &Path) -> Result<()> {
    let folder = run_dir::locate(path);
    let (kind, command) = if run_dir::is_run(&folder) {
        ("run", "resume")
    } else if SweepFolder::is_sweep(&folder) {
        ("sweep", "sweep")
    } else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "{} is the folder of a {kind}, but `train` expects an experiment file; continue it with: formwork {command} {}",
        folder.display(),
        shell_word(&folder)
    )))
}

/// Returns an error if an experiment is given instead of its run's folder.
pub(super) fn require_no_experiment(path: &Path) -> Result<()> {
    let is_experiment = path.extension().is_some_and(|ending| ending == "toml");
    if !(is_experiment && path.is_file()) {
        return Ok(());
    }
    let shown = path.display();
    let remedy = match experiment::load(path, &[]) {
        Ok(loaded) => {
            let folder = run::default_folder(&loaded.experiment.name);
            let is_there = run_dir::is_run(&folder);
            let folder = shell_word(&folder);
            match is_there {
                true => {
                    format!("; resume the run of this experiment with: formwork resume {folder}")
                }
                false => format!(
                    "; the folder of this experiment would be {folder}, which contains no run"
                ),
            }
        }
        Err(_) => String::new(),
    };
    Err(Error::usage(format!(
        "{shown} is a file, but `resume` expects the folder of a run{remedy}"
    )))
}
