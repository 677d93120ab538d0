//! The settings of an arm, by which it is recognised when its sweep grows.

use crate::error::{Error, Result};
use crate::experiment::{Experiment, LoadedExperiment, inline};
use crate::report::analyse::arms::is_bookkeeping;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The settings that all cells of an arm share, by dotted key, without keys that only name a run or record it. Paths are
/// independent of the working directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArmSettings {
    /// `train.steps`.
    pub steps: u64,
    settings: BTreeMap<String, String>,
}

impl ArmSettings {
    /// Collects the settings of an arm.
    ///
    /// # Errors
    /// If a path cannot be made absolute.
    pub fn of(arm: &LoadedExperiment) -> Result<Self> {
        let experiment = arm.experiment.with_absolute_paths(&arm.places())?;
        let mut settings = flat_settings(&experiment)?;
        settings.retain(|key, _| !is_bookkeeping(key));
        Ok(Self {
            steps: experiment.train.steps,
            settings,
        })
    }

    /// Returns the keys of an arm that hold paths: those whose values change when every path is replaced by another
    /// one.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn path_keys(arm: &LoadedExperiment) -> Result<BTreeSet<String>> {
        let other = |path: &Path| PathBuf::from(format!("?{}", path.display()));
        let others = flat_settings(&arm.experiment.with_paths(other)?)?;
        let own = flat_settings(&arm.experiment)?.into_iter();
        let differing = own.filter(|(key, value)| others.get(key) != Some(value));
        Ok(differing.map(|(key, _)| key).collect())
    }

    /// Returns the settings without the number of steps.
    pub fn without_steps(&self) -> impl Iterator<Item = (&String, &String)> {
        let of_steps = ["train.steps", "train.epochs"];
        let all = self.settings.iter();
        all.filter(move |(key, _)| !of_steps.contains(&key.as_str()))
    }

    /// Formats a setting as its file would have it.
    fn toml_line(&self, key: &str) -> String {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        let table = match table {
            "" => String::new(),
            table => format!("[{table}] "),
        };
        match self.settings.get(key) {
            Some(value) => format!("`{table}{name} = {value}`"),
            None => format!("no `{table}{name}`"),
        }
    }
}

/// Returns all settings of an experiment by dotted key.
fn flat_settings(experiment: &Experiment) -> Result<BTreeMap<String, String>> {
    let table = Table::try_from(experiment)
        .map_err(|e| Error::run(format!("cannot serialize an arm of the sweep: {e}")))?;
    let mut settings = BTreeMap::new();
    collect(table, "", &mut settings);
    Ok(settings)
}

/// Collects all values by dotted key, as TOML.
fn collect(table: Table, prefix: &str, settings: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let name = match prefix {
            "" => key,
            _ => format!("{prefix}.{key}"),
        };
        match value {
            Value::Table(table) => collect(table, &name, settings),
            other => drop(settings.insert(name, inline(&other))),
        }
    }
}

/// Returns the error for an arm whose runs were made with other settings.
pub(super) fn changed_arm_error(arm: &str, was: &ArmSettings, now: &ArmSettings) -> Error {
    let names: BTreeSet<&String> = was.settings.keys().chain(now.settings.keys()).collect();
    let mut differing = names
        .into_iter()
        .filter(|key| was.settings.get(*key) != now.settings.get(*key));
    let key = differing.next().map_or("", String::as_str);
    let more = match differing.count() {
        0 => String::new(),
        1 => " (and one more key differs)".into(),
        n => format!(" (and {n} more keys differ)"),
    };
    Error::usage(format!(
        "arm `{arm}` was trained with {} but now has {}{more}; give the sweep another name, or start it over with --fresh",
        was.toml_line(key),
        now.toml_line(key)
    ))
}
