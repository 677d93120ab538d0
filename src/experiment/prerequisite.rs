//! Experiments that stand for their runs: `[init] from` and the teacher of a distillation may name a file in place of a
//! run's folder, and mean the run that this file makes, `checkpoints/NAME`.
//!
//! An experiment that is read names folders alone: what runs, resumes and moves knows no file. The files stay beside it
//! ([`Loaded::prerequisites`]), so that `verify` trains them first and `check` says which command does.

use super::file::messages;
use super::{Experiment, Loaded, Origin};
use crate::error::{Error, Result};
use crate::train::run_dir::RESOLVED;
use std::path::{Path, PathBuf};

/// The folder of the runs of `train`.
pub const RUNS: &str = "checkpoints";

/// An experiment that is trained before another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prerequisite {
    /// The dotted key that names it.
    pub key: &'static str,
    /// Its file.
    pub file: PathBuf,
    /// The folder of its run.
    pub run: PathBuf,
}

impl Experiment {
    /// The keys that name other runs, with their values.
    fn other_runs(&mut self) -> Vec<(&'static str, &mut PathBuf)> {
        let from = self.init.from.as_mut().map(|from| ("init.from", from));
        let parts = [
            ("init.image.from", self.init.image.as_mut()),
            ("init.text.from", self.init.text.as_mut()),
        ];
        let parts = parts
            .into_iter()
            .filter_map(|(key, part)| Some((key, &mut part?.from)));
        let teacher = self.task.teacher_mut().map(|run| ("task.teacher", run));
        from.into_iter().chain(parts).chain(teacher).collect()
    }
}

impl Loaded {
    /// The experiment with the folders of runs, which lie in `runs`, in the place of experiments. `seen` are the files that
    /// led here.
    ///
    /// # Errors
    /// A file that is missing, cannot be read, is a sweep, or leads back to one of those that led to it.
    pub(super) fn with_runs(mut self, runs: &Path, seen: &[PathBuf]) -> Result<Self> {
        let seen = [seen, &[canonical(&self.path)]].concat();
        let folder = self.path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut experiment = self.experiment.clone();
        for (key, path) in experiment.other_runs() {
            let written = path.clone();
            if written.extension().is_none_or(|ending| ending != "toml") {
                continue;
            }
            let near = [written.clone(), folder.join(&written)];
            if near.iter().any(|place| place.is_dir()) {
                continue;
            }
            let fault = |reason: String| self.fault_of(key, &written, &reason);
            let Some(file) = near.into_iter().find(|place| place.is_file()) else {
                return Err(fault("there is no such file, and no run".into()));
            };
            if seen.contains(&canonical(&file)) {
                return Err(fault("it leads back to this file".into()));
            }
            let other = super::file::load_from(&file, &[], runs, &seen)?.experiment;
            if other.ablation.is_some() {
                return Err(fault("it has [ablation], and makes many runs".into()));
            }
            *path = runs.join(&other.name);
            self.prerequisites.push(Prerequisite {
                key,
                file,
                run: path.clone(),
            });
        }
        self.experiment = experiment;
        if self.has_tokenizer_of_other_run() {
            self.experiment.tokenizer = None;
        }
        Ok(self)
    }

    /// Whether all of `[tokenizer]` comes from the file of the run that `[init]` names, which the experiment extends: its
    /// tokenizer is that run's then, and not one that would be trained anew.
    fn has_tokenizer_of_other_run(&self) -> bool {
        let own = |key: &str| key == "tokenizer" || key.starts_with("tokenizer.");
        let mut origins = self.origins.iter().filter(|(key, _)| own(key)).peekable();
        if origins.peek().is_none() {
            return false;
        }
        let places = self.places();
        let begins = self.experiment.init.beginnings().into_iter();
        let files = begins.map(|one| canonical(&places.anchored(&one.from).join(RESOLVED)));
        let files: Vec<PathBuf> = files.collect();
        origins.all(|(_, origin)| match origin {
            Origin::File { path, .. } => files.contains(&canonical(path)),
            Origin::Set(_) | Origin::Preset { .. } | Origin::Default => false,
        })
    }

    /// The experiment that stands for the run which a key names, if one does.
    pub fn prerequisite(&self, key: &str) -> Option<&Prerequisite> {
        self.prerequisites.iter().find(|before| before.key == key)
    }

    fn fault_of(&self, key: &str, path: &Path, reason: &str) -> Error {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        let message = format!("[{table}] {name} = {path:?}: {reason}");
        let origin = Some(self.origin(key)).filter(|origin| **origin != Origin::Default);
        Error::Invalid(vec![messages::placed(&self.path, origin, message)])
    }
}

/// A file by the one path that all its names lead to.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
