//! The keys that name a run which stands frozen beside another one: `[task] teacher`, `[task] reference`, or `[init] from` where a
//! reference is the run that training begins from.

use crate::data::Places;
use crate::error::{Error, Result};
use crate::experiment::saved::Which;
use crate::experiment::{Experiment, transfer};
use crate::train::{run_dir, run_files};
use std::path::{Path, PathBuf};

/// A run that stands frozen beside an experiment's own.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// What it is for the task: `teacher` or `reference`.
    pub called: &'static str,
    /// The dotted key of its folder.
    pub key: &'static str,
    /// The dotted key of its checkpoint.
    pub checkpoint_key: &'static str,
    /// Its folder, as the experiment says it.
    pub path: &'a Path,
    checkpoint: Option<&'a str>,
    /// The seed whose run it is, where the folder holds an arm's runs.
    seed: Option<u64>,
}

/// The run that stands frozen beside an experiment's own; `None` also where a reference is the run that training begins from,
/// and it begins from none.
pub fn named(experiment: &Experiment) -> Option<Named<'_>> {
    let run = experiment.task.frozen_run()?;
    Some(match run.path {
        Some(path) => Named {
            called: run.called,
            key: run.key,
            checkpoint_key: run.checkpoint_key,
            path,
            checkpoint: run.checkpoint,
            seed: None,
        },
        None => Named {
            called: run.called,
            key: FROM,
            checkpoint_key: "init.checkpoint",
            path: experiment.init.from.as_deref()?,
            checkpoint: experiment.init.checkpoint.as_deref(),
            seed: Some(experiment.seed),
        },
    })
}

const FROM: &str = "init.from";

impl Named<'_> {
    /// Whether it is the run that training begins from.
    pub fn is_beginning(&self) -> bool {
        self.key == FROM
    }

    /// Its key as messages show it: `[task] teacher`.
    pub(super) fn shown(&self) -> String {
        let (table, key) = split(self.key);
        format!("[{table}] {key}")
    }

    /// Its folder.
    ///
    /// # Errors
    /// No run there, or one whose files were changed.
    pub fn folder(&self, places: &Places) -> Result<PathBuf> {
        let folder = places.anchored(self.path);
        let folder = match self.seed {
            Some(seed) => transfer::of_seed(folder, seed),
            None => folder,
        };
        run_dir::require_run(&folder).map_err(|error| {
            Error::usage(format!(
                "{} = {:?}: {error}; train that run first, or name the place where it lies now",
                self.shown(),
                self.path
            ))
        })?;
        run_files::verify(&folder)?;
        Ok(folder)
    }

    /// The checkpoint that is named.
    ///
    /// # Errors
    /// A value that is none, or a mean of several.
    pub fn which(&self) -> Result<Which> {
        let text = self.checkpoint.unwrap_or("best");
        let (table, key) = split(self.checkpoint_key);
        let fault =
            |rule: String| Error::usage(format!("[{table}] {key} = {text:?} is none; {rule}"));
        match text.parse().map_err(fault)? {
            Which::Average(_) => Err(fault(format!(
                "give best, latest or the number of a step: a {} is one checkpoint",
                self.called
            ))),
            which => Ok(which),
        }
    }

    /// The checkpoint that was asked for, as it stands in the experiment.
    pub(super) fn asked(&self) -> Option<String> {
        self.checkpoint.map(str::to_owned)
    }

    /// An error of the run in a folder.
    pub(super) fn wrong(&self, folder: &Path, reason: String) -> Error {
        Error::usage(format!(
            "{}: the run {} {reason}",
            self.shown(),
            folder.display()
        ))
    }

    /// The remedy of an error about a checkpoint as a key, where commands have a flag.
    pub(super) fn as_key(&self, error: Error) -> Error {
        let (table, key) = split(self.checkpoint_key);
        transfer::as_key_of(&format!("[{table}]"), key, error)
    }
}

/// The table of a dotted key, and the key in it.
fn split(key: &'static str) -> (&'static str, &'static str) {
    key.rsplit_once('.').unwrap_or(("", key))
}
