//! The keys that name a frozen run beside the one that trains: `[task] teacher`, `[task] reference`, or `[init] from` if the
//! reference is the run that training starts from.

use crate::data::SearchPath;
use crate::error::{Error, Result};
use crate::experiment::run_contents::CheckpointChoice;
use crate::experiment::{Experiment, transfer};
use crate::train::{run_dir, run_manifest};
use std::path::{Path, PathBuf};

/// A frozen run beside an experiment's own.
#[derive(Clone, Copy, Debug)]
pub struct FrozenRun<'a> {
    /// Role of the run in the task: `teacher` or `reference`.
    pub role: &'static str,
    /// Dotted key of its folder.
    pub key: &'static str,
    /// Dotted key of its checkpoint.
    pub checkpoint_key: &'static str,
    /// Path of its folder, as the experiment gives it.
    pub path: &'a Path,
    checkpoint: Option<&'a str>,
    /// The seed that selects the run if the folder holds the runs of a sweep arm.
    seed: Option<u64>,
}

/// Returns the frozen run beside an experiment's own. `None` if the task uses none, or if the reference is the run that
/// training starts from and there is no such run.
pub fn frozen_run(experiment: &Experiment) -> Option<FrozenRun<'_>> {
    let run = experiment.task.frozen_run()?;
    Some(match run.path {
        Some(path) => FrozenRun {
            role: run.role,
            key: run.key,
            checkpoint_key: run.checkpoint_key,
            path,
            checkpoint: run.checkpoint,
            seed: None,
        },
        None => FrozenRun {
            role: run.role,
            key: FROM,
            checkpoint_key: "init.checkpoint",
            path: experiment.init.from.as_deref()?,
            checkpoint: experiment.init.checkpoint.as_deref(),
            seed: Some(experiment.seed),
        },
    })
}

const FROM: &str = "init.from";

impl FrozenRun<'_> {
    /// Whether it is the run that training starts from.
    pub fn is_initial_run(&self) -> bool {
        self.key == FROM
    }

    /// The key as messages show it: `[task] teacher`.
    pub(super) fn key_label(&self) -> String {
        let (table, key) = split(self.key);
        format!("[{table}] {key}")
    }

    /// Returns the folder of the run.
    ///
    /// # Errors
    /// If there is no run, or its files were changed.
    pub fn folder(&self, places: &SearchPath) -> Result<PathBuf> {
        let folder = places.anchored(self.path);
        let folder = match self.seed {
            Some(seed) => transfer::run_for_seed(folder, seed),
            None => folder,
        };
        run_dir::require_run(&folder).map_err(|error| {
            Error::usage(format!(
                "{} = {:?}: {error}; train that run first, or give the path where it is now",
                self.key_label(),
                self.path
            ))
        })?;
        run_manifest::verify(&folder)?;
        Ok(folder)
    }

    /// Returns the configured checkpoint.
    ///
    /// # Errors
    /// If the value is not a valid choice, or is a mean of several checkpoints.
    pub fn which(&self) -> Result<CheckpointChoice> {
        let text = self.checkpoint.unwrap_or("best");
        let (table, key) = split(self.checkpoint_key);
        let fault = |rule: String| {
            Error::usage(format!(
                "[{table}] {key} = {text:?} is not a checkpoint; {rule}"
            ))
        };
        match text.parse().map_err(fault)? {
            CheckpointChoice::Average(_) => Err(fault(format!(
                "give best, latest or the number of a step: a {} must be a single checkpoint",
                self.role
            ))),
            which => Ok(which),
        }
    }

    /// The configured checkpoint, as the experiment gives it.
    pub(super) fn requested_checkpoint(&self) -> Option<String> {
        self.checkpoint.map(str::to_owned)
    }

    /// Returns an error about the run in a folder.
    pub(super) fn run_error(&self, folder: &Path, reason: String) -> Error {
        Error::usage(format!(
            "{}: the run {} {reason}",
            self.key_label(),
            folder.display()
        ))
    }

    /// Rewords the `--checkpoint` flag that an error suggests as a key.
    pub(super) fn as_key(&self, error: Error) -> Error {
        let (table, key) = split(self.checkpoint_key);
        transfer::as_key_of(&format!("[{table}]"), key, error)
    }
}

/// Splits a dotted key into its table and the key in it.
fn split(key: &'static str) -> (&'static str, &'static str) {
    key.rsplit_once('.').unwrap_or(("", key))
}
