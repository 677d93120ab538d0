//! Finds the data files of a run again after they or the run were moved, and compares them with their fingerprints.
//!
//! Files are the same data if their content is the same, wherever they are. A file is searched for where `resolved.toml` says,
//! relative to the run's folder, and otherwise where it was when the run began (`files.json`); the content decides.

use super::open::OpenedRun;
use super::{Experiment, assemble};
use crate::data::catalog::fingerprint::{self, Fingerprint, LocatedFile};
use crate::data::{Data, DataConfig, SearchPath};
use crate::error::{Error, Result, shell_word};
use crate::train::run_dir::FILES;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How to treat data files that differ from those that a run began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedFiles {
    /// Use them, with a message.
    Accept,
    /// Refuse them; the string lists the user's options at the end of the error.
    Refuse(&'static str),
}

impl ChangedFiles {
    /// Refusal by a command that has no flag to accept changed files.
    pub const REFUSED: Self = Self::Refuse("restore it");

    /// Returns the choice that the flag `--other-data` makes.
    pub fn of_flag(taken: bool) -> Self {
        match taken {
            true => Self::Accept,
            false => Self::Refuse(
                "restore it, start a new run, or accept the changed file with --other-data",
            ),
        }
    }
}

/// The data of a run and where its files are now.
pub struct LocatedData {
    /// `[data]` with the current paths of files that were moved.
    pub data: DataConfig,
    /// Current fingerprints of the files.
    current: Vec<Fingerprint>,
    /// Fingerprints stored in the run; none for a run of an earlier version.
    stored: Option<Vec<Fingerprint>>,
}

impl LocatedData {
    /// Returns the new content of `files.json` if it has changed: that of a run that continues from `step`, with the history of
    /// the contents that it read until then.
    ///
    /// # Errors
    /// If the fingerprints cannot be serialised.
    pub fn updated_files_json(&self, step: u64) -> Result<Option<Vec<u8>>> {
        let now = self.with_history(step);
        match self.stored.as_ref() == Some(&now) {
            true => Ok(None),
            false => to_json(&now).map(Some),
        }
    }

    /// The last step whose evaluation read different examples than evaluations after `step` do; 0 if all read the same.
    pub fn last_step_with_other_eval_data(&self, step: u64) -> u64 {
        let files = self.with_history(step);
        let has_own = files.iter().any(|file| file.key.starts_with("valid"));
        let is_read = |file: &&Fingerprint| match has_own {
            true => file.key.starts_with("valid"),
            // Validation examples are then a share of the training examples.
            false => !file.key.starts_with("test"),
        };
        let earlier = files.iter().filter(is_read).flat_map(|file| &file.earlier);
        earlier.map(|earlier| earlier.until).max().unwrap_or(0)
    }

    fn with_history(&self, step: u64) -> Vec<Fingerprint> {
        let before = self.stored.as_deref().unwrap_or_default();
        let with_history = |(number, print): (usize, &Fingerprint)| {
            let was = before.get(number).filter(|was| was.key == print.key);
            was.map_or_else(
                || print.clone(),
                |was| print.clone().with_history(was, step),
            )
        };
        self.current.iter().enumerate().map(with_history).collect()
    }
}

/// Returns `files.json` of a new run, and a warning if training and evaluation share files.
///
/// # Errors
/// If a file cannot be read.
pub fn files_json(
    experiment: &Experiment,
    places: &SearchPath,
) -> Result<(Vec<u8>, Option<String>)> {
    let now = new_fingerprints(experiment, places)?;
    Ok((to_json(&now)?, shared(&now)))
}

/// Returns a warning if training and evaluation of a new run share files.
///
/// # Errors
/// If a file cannot be read.
pub fn shared_files_warning(
    experiment: &Experiment,
    places: &SearchPath,
) -> Result<Option<String>> {
    Ok(shared(&new_fingerprints(experiment, places)?))
}

/// The fingerprints of the files of a new run.
fn new_fingerprints(experiment: &Experiment, places: &SearchPath) -> Result<Vec<Fingerprint>> {
    let found = fingerprint::fingerprints(&experiment.data, places, &[], &experiment.data)?;
    Ok(fingerprints(found))
}

/// Returns a warning about an evaluation file that is also a training file, or lies in a folder of training files.
fn shared(files: &[Fingerprint]) -> Option<String> {
    let held_out = |file: &&Fingerprint| {
        ["valid", "test"]
            .iter()
            .any(|part| file.key.starts_with(part))
    };
    let trained = || files.iter().filter(|file| !held_out(file));
    let of_training = |file: &&Fingerprint| {
        trained().any(|other| other.sha256 == file.sha256 || file.path.starts_with(&other.path))
    };
    let file = files.iter().filter(held_out).find(of_training)?;
    Some(format!(
        "[data] {} = {} is also training data: scores on it say nothing about new data",
        file.key,
        file.path.display()
    ))
}

/// Returns the keys and SHA-256 sums of a new run's files, independent of where the files are.
///
/// # Errors
/// If a file cannot be read.
pub fn checksums(experiment: &Experiment, places: &SearchPath) -> Result<String> {
    let each = new_fingerprints(experiment, places)?;
    let lines = each
        .iter()
        .map(|file| format!("{} {}\n", file.key, file.sha256));
    Ok(lines.collect())
}

/// Finds the data files of a run and compares them with the fingerprints in its folder. A run of an earlier version, which has
/// no fingerprints, is assumed to have its files unchanged. `own` is the run's own `[data]`.
///
/// # Errors
/// If a file has changed and `other_data` refuses it (otherwise `notice` is called with a message); if a file does not exist or
/// cannot be read.
pub fn locate_and_verify(
    root: &Path,
    experiment: &Experiment,
    own: &DataConfig,
    places: &SearchPath,
    other_data: ChangedFiles,
    notice: fn(&str),
) -> Result<LocatedData> {
    let before = stored_fingerprints(root)?;
    let known = before.as_deref().unwrap_or_default();
    let found = fingerprint::fingerprints(&experiment.data, places, known, own)
        .map_err(|error| with_relocation_hint(error, root, experiment, places))?;
    let elsewhere: BTreeMap<PathBuf, PathBuf> = found
        .iter()
        .filter_map(|found| Some((found.given.clone(), found.found_at.clone()?)))
        .collect();
    let now = fingerprints(found);
    if let (Some(before), Some(other)) = (
        &before,
        before
            .as_ref()
            .and_then(|before| fingerprint::first_changed(before, &now)),
    ) {
        let what = changed_file_message(before, other);
        match other_data {
            ChangedFiles::Refuse(ways) => {
                return Err(Error::usage(format!("{what}: its content changed; {ways}")));
            }
            ChangedFiles::Accept => notice(&format!("{what}; the changed file is used")),
        }
    }
    let data = experiment.data.with_paths(|path| {
        elsewhere
            .get(path)
            .cloned()
            .unwrap_or_else(|| path.to_path_buf())
    });
    Ok(LocatedData {
        data,
        current: now,
        stored: before,
    })
}

/// Extends the error about a missing data path by the command that sets its new location.
fn with_relocation_hint(
    error: Error,
    root: &Path,
    experiment: &Experiment,
    places: &SearchPath,
) -> Error {
    let paths = experiment.data.data_set().paths();
    let missing = paths.iter().find(|(_, path)| places.resolve(path).is_err());
    let Some((key, _)) = missing else {
        return error;
    };
    let several = paths.iter().filter(|(other, _)| other == key).count() > 1;
    let set = match several {
        true => format!("'data.{key}=[\"NEW\", …]'"),
        false => format!("data.{key}=NEW"),
    };
    let hint = format!(
        "; if it was moved, set its new path with `formwork resume {} --set {set}`",
        shell_word(root)
    );
    match error {
        Error::Invalid(mut faults) => {
            for fault in &mut faults {
                fault.message.push_str(&hint);
            }
            Error::Invalid(faults)
        }
        other => other,
    }
}

/// Message about a file that has changed.
fn changed_file_message(before: &[Fingerprint], other: &Fingerprint) -> String {
    let known = || before.iter().filter(|b| b.key == other.key);
    match known().next().is_some() {
        true => {
            let began = match known().any(|b| !b.earlier.is_empty()) {
                true => "read last",
                false => "began with",
            };
            let differences = known().find_map(|known| other.differences(known));
            format!(
                "[data] {} = {} differs from the one that the run {began}{}",
                other.key,
                other.path.display(),
                differences.map_or_else(String::new, |files| format!(" ({files})"))
            )
        }
        false => format!("[data] {} is not a file that the run began with", other.key),
    }
}

/// Returns a message if a data file that a new run of the experiment would read differs from the one that the run in `root`
/// began with. None for a run of an earlier version. `known` caches fingerprints, so that files are read once.
///
/// # Errors
/// If a file does not exist or cannot be read.
pub fn first_changed_file(
    root: &Path,
    experiment: &Experiment,
    places: &SearchPath,
    known: &mut Vec<Fingerprint>,
) -> Result<Option<String>> {
    let Some(before) = stored_fingerprints(root)? else {
        return Ok(None);
    };
    let read = [before.as_slice(), known.as_slice()].concat();
    // A new run does not search the earlier locations of files.
    let own = experiment.data.with_paths(|_| PathBuf::new());
    let now = fingerprints(fingerprint::fingerprints(
        &experiment.data,
        places,
        &read,
        &own,
    )?);
    let what =
        fingerprint::first_changed(&before, &now).map(|other| changed_file_message(&before, other));
    known.extend(now.into_iter().filter(|print| !read.contains(print)));
    Ok(what)
}

/// Reads the data of a run that is opened for use from the files' current locations, with the run's vocabulary, classes and
/// sizes. `change` can modify the run's `[data]` first.
///
/// # Errors
/// Those of [`locate_and_verify`], `change` and [`assemble::data`].
pub fn read_run_data(
    root: &Path,
    opened: &OpenedRun,
    other_data: ChangedFiles,
    notice: fn(&str),
    change: impl FnOnce(DataConfig) -> Result<DataConfig>,
) -> Result<Data> {
    let (experiment, places) = (&opened.experiment, &opened.places);
    let own = &experiment.data;
    let held = locate_and_verify(root, experiment, own, places, other_data, notice)?;
    let experiment = Experiment {
        data: change(held.data)?,
        ..experiment.clone()
    };
    let mut shape = opened.shape.clone();
    if other_data == ChangedFiles::Accept {
        // Changed texts need a new retrieval database.
        shape.database = None;
    }
    assemble::data(&experiment, places, &opened.tokenizers, Some(&shape))
}

/// Whether the run stores fingerprints, so that another path can be proven to lead to the same data.
pub fn has_fingerprints(root: &Path) -> bool {
    root.join(FILES).is_file()
}

fn stored_fingerprints(root: &Path) -> Result<Option<Vec<Fingerprint>>> {
    let path = root.join(FILES);
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display()))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", &path)(e)),
    }
}

fn fingerprints(found: Vec<LocatedFile>) -> Vec<Fingerprint> {
    found.into_iter().map(|found| found.print).collect()
}

fn to_json(files: &[Fingerprint]) -> Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(files).map_err(|e| {
        Error::run(format!(
            "cannot serialise the fingerprints of the data files: {e}"
        ))
    })?;
    Ok(format!("{text}\n").into_bytes())
}
