//! Experiment files in place of run folders: `[init] from`, the teacher of a distillation and the reference of preferences may
//! name an experiment file instead of a run's folder. This means the run that the file creates, `checkpoints/NAME`.
//!
//! A loaded experiment names only folders, so running, resuming and moving need not know about files. The files are kept in
//! [`LoadedExperiment::prerequisites`], so that `verify` can train them first and `check` can say which command does.

use super::file::messages;
use super::{Experiment, LoadedExperiment, Origin, transfer};
use crate::error::{Error, Result};
use crate::tokenizer::TokenizerConfig;
use crate::train::run_dir::RESOLVED;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::train::run_dir::DEFAULT_FOLDER;

/// Maximum number of runs, each begun from the next, that are followed in search of a tokenizer.
const MOST_BEFORE: usize = 16;

/// An experiment that has to be trained before another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prerequisite {
    /// Dotted key that names the experiment.
    pub key: &'static str,
    /// Path of the experiment file.
    pub file: PathBuf,
    /// Folder of its run.
    pub run: PathBuf,
}

impl Experiment {
    /// The keys that name other runs, with their paths.
    fn other_runs(&mut self) -> Vec<(&'static str, &mut PathBuf)> {
        let from = self.init.from.as_mut().map(|from| ("init.from", from));
        let parts = [
            ("init.image.from", self.init.image.as_mut()),
            ("init.text.from", self.init.text.as_mut()),
        ];
        let parts = parts
            .into_iter()
            .filter_map(|(key, part)| Some((key, &mut part?.from)));
        let frozen = self.task.frozen_run_mut();
        from.into_iter().chain(parts).chain(frozen).collect()
    }
}

impl LoadedExperiment {
    /// Replaces experiment files by the folders of their runs, which are in `runs`. `seen` are the files that led to this one.
    ///
    /// # Errors
    /// If a file is missing, cannot be read, is a sweep, or leads back to one of the files that led to it.
    pub(super) fn resolve_prerequisites(mut self, runs: &Path, seen: &[PathBuf]) -> Result<Self> {
        let seen = [seen, &[canonical(&self.path)]].concat();
        let folder = self.path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut experiment = self.experiment.clone();
        let texts = transfer::text_source(&experiment).map(|one| one.key);
        let mut same = false;
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
                return Err(fault("there is no such file or run".into()));
            };
            if seen.contains(&canonical(&file)) {
                return Err(fault("it refers back to this file".into()));
            }
            let other = super::file::load_from(&file, &[], runs, &seen)?;
            if other.experiment.ablation.is_some() {
                return Err(fault("it has [ablation] and describes several runs".into()));
            }
            *path = runs.join(&other.experiment.name);
            same |= texts == Some(key) && self.tokenizer_keys() == other.tokenizer_keys();
            self.prerequisites.push(Prerequisite {
                key,
                file,
                run: path.clone(),
            });
        }
        self.experiment = experiment;
        if self.has_tokenizer_of_other_run(same) {
            self.experiment.tokenizer = None;
        }
        Ok(self)
    }

    /// The keys of `[tokenizer]` as they were written.
    fn tokenizer_keys(&self) -> BTreeMap<&str, &toml::Value> {
        let all = self
            .written_values
            .iter()
            .filter(|(key, _)| is_tokenizer_key(key));
        all.map(|(key, value)| (key.as_str(), value)).collect()
    }

    /// Whether the experiment uses the tokenizer of the run that `[init]` names instead of training a new one: all of
    /// `[tokenizer]` comes from files that the experiment extends, and it is the run's own. `same` says that the experiment
    /// which stands for the run has the same keys.
    fn has_tokenizer_of_other_run(&self, same: bool) -> bool {
        let origins = self.origins.iter().filter(|(key, _)| is_tokenizer_key(key));
        let files = origins.map(|(_, origin)| match origin {
            Origin::File { path, .. } => Some(canonical(path)),
            Origin::Set(_) | Origin::Preset { .. } | Origin::Default => None,
        });
        let Some(files) = files.collect::<Option<Vec<PathBuf>>>() else {
            return false;
        };
        if files.is_empty() || files.contains(&canonical(&self.path)) {
            return false;
        }
        let places = self.places();
        let begins = self.experiment.init.initial_runs().into_iter();
        let runs = begins.map(|one| canonical(&places.anchored(&one.from).join(RESOLVED)));
        let runs: Vec<PathBuf> = runs.collect();
        same || files.iter().all(|file| runs.contains(file)) || self.tokenizer_is_of_run()
    }

    /// Whether `[tokenizer]` equals that of the run from which the text network is initialised.
    fn tokenizer_is_of_run(&self) -> bool {
        let places = self.places();
        let Some(beginning) = transfer::text_source(&self.experiment) else {
            return false;
        };
        let run = transfer::run_for_seed(places.anchored(&beginning.from), self.experiment.seed);
        let own = self.experiment.tokenizer.as_ref();
        let own = own.and_then(|own| own.with_path(|path| Ok(places.anchored(path))).ok());
        own.is_some() && own == tokenizer_of(&run, MOST_BEFORE)
    }

    /// Returns the experiment that stands for the run which a key names, if there is one.
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

/// Whether a dotted key is `tokenizer` or belongs to its table.
fn is_tokenizer_key(key: &str) -> bool {
    key == "tokenizer" || key.starts_with("tokenizer.")
}

/// `[tokenizer]` of a run with absolute paths. If the run took its tokenizer from an earlier run, that run's, over at most
/// `left` runs.
fn tokenizer_of(run: &Path, left: usize) -> Option<TokenizerConfig> {
    let loaded = super::file::load(&run.join(RESOLVED), &[]).ok()?;
    let experiment = loaded
        .experiment
        .with_absolute_paths(&loaded.places())
        .ok()?;
    match experiment.tokenizer {
        Some(own) => Some(own),
        None => {
            let before = transfer::text_source(&experiment)?;
            tokenizer_of(&before.from, left.checked_sub(1)?)
        }
    }
}

/// Returns the canonical path of a file, or the path itself if it cannot be resolved.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
