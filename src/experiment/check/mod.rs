//! Checks whether an experiment makes sense, and reports all errors at once, each with its line and a remedy.
//!
//! Rules depend on values, not on whether a key was written. Hence a resolved experiment, in which every key is written, passes
//! exactly if the file it came from does. Two rules are exceptions and depend on where a key was set. The placeholders of an
//! imported run do not count as settings of an experiment. A key set by a preset or an extended file may be ignored by a task,
//! whereas one that the experiment itself sets may not.

mod ablation;
mod activation_memory;
mod consistency;
mod data;
mod diagnostics;
mod expect;
mod global_tokens;
mod group_positions;
mod grpo;
mod head_bias;
mod images;
mod init;
mod layers;
mod mixer_context;
mod model;
mod mup;
mod placeholders;
mod replay;
mod retrieval;
mod schedule;
mod segments;
mod sharing;
mod teacher;
mod train;
mod weight_average;

pub use expect::measured_metrics;

use super::file::messages;
use super::{LoadedExperiment, Origin};
use crate::error::{Error, Fault, Result};
use crate::faults::{self, Faults, TableFaults};
use crate::model::ModelConfig;

/// Reports everything that is wrong with an experiment, including data files that cannot be found.
///
/// # Errors
/// [`Error::Invalid`] with all errors, in the order of their lines.
pub fn check(loaded: &LoadedExperiment) -> Result<()> {
    run(loaded, Purpose::NewRun)
}

/// As [`check`], for an experiment whose prerequisites will be trained before it: their runs need not exist yet.
///
/// # Errors
/// As [`check`].
pub fn check_with_prerequisites(loaded: &LoadedExperiment) -> Result<()> {
    run(loaded, Purpose::NewRunWithPrerequisites)
}

/// As [`check`], for a run that is resumed: the run in `[init] from` need not exist any more.
///
/// # Errors
/// As [`check`].
pub fn check_for_resume(loaded: &LoadedExperiment) -> Result<()> {
    run(loaded, Purpose::Resume)
}

/// As [`check`], for a learning-rate search: the learning rate, the number of steps and the schedule are not used.
///
/// # Errors
/// As [`check`].
pub fn check_for_lr_search(loaded: &LoadedExperiment) -> Result<()> {
    run(loaded, Purpose::LrSearch)
}

/// The purpose that an experiment is checked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    NewRun,
    /// As `Beginning`, with the learning rates and steps of a learning-rate search.
    LrSearch,
    /// As `Beginning`, before the runs of its prerequisites exist.
    NewRunWithPrerequisites,
    Resume,
    /// Inference, without training and without data.
    Inference,
}

impl Purpose {
    /// Whether the purpose is a new run.
    fn is_new_run(self) -> bool {
        matches!(
            self,
            Self::NewRun | Self::LrSearch | Self::NewRunWithPrerequisites
        )
    }
}

/// As [`check`], without searching for data files: what can be said on a machine that has none.
///
/// # Errors
/// [`Error::Invalid`] with all errors, in the order of their lines.
pub fn check_without_files(loaded: &LoadedExperiment) -> Result<()> {
    run(loaded, Purpose::Inference)
}

fn run(loaded: &LoadedExperiment, what: Purpose) -> Result<()> {
    let mut sense = Checker::new(loaded);
    let context = data::check(&mut sense, what);
    model::check(&mut sense, context, what);
    global_tokens::check(&mut sense);
    teacher::check(&mut sense, what);
    grpo::check(&mut sense, what);
    consistency::check(&mut sense);
    retrieval::check(&mut sense);
    activation_memory::recompute(&mut sense);
    replay::check(&mut sense);
    train::check(&mut sense);
    if what != Purpose::LrSearch {
        schedule::check(&mut sense);
    }
    weight_average::check(&mut sense);
    placeholders::check(&mut sense, what);
    head_bias::check(&mut sense, what);
    if what != Purpose::Inference {
        weight_average::check_precision(&mut sense);
    }
    diagnostics::check(&mut sense);
    expect::check(&mut sense);
    ablation::check(&mut sense);
    let mut faults = sense.faults;
    faults.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    faults.dedup();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(faults))
    }
}

/// Adds locations to an error that data, model or optimizer return for a checked experiment: `[data] windows = …` is located at
/// the line of `windows`. Errors that have a location keep it.
pub fn locate_error(loaded: &LoadedExperiment, error: Error) -> Error {
    let Error::Invalid(found) = error else {
        return error;
    };
    let mut sense = Checker::new(loaded);
    for fault in found {
        let names_table = fault.message.starts_with('[') && !fault.message.starts_with("[[");
        match fault.file.is_none() && names_table {
            true => sense.add_worded("", &fault.message),
            false => sense.faults.push(fault),
        }
    }
    Error::Invalid(sense.faults)
}

/// Collects errors and finds their locations.
struct Checker<'a> {
    loaded: &'a LoadedExperiment,
    faults: Vec<Fault>,
    /// Of a model with two networks, the one being checked, with the key that holds it: keys of `model` then mean that
    /// network's.
    current_part: Option<(&'static str, &'a ModelConfig)>,
}

impl<'a> Checker<'a> {
    fn new(loaded: &'a LoadedExperiment) -> Self {
        Self {
            loaded,
            faults: Vec::new(),
            current_part: None,
        }
    }

    /// The network being checked.
    fn model(&self) -> &'a ModelConfig {
        let whole = &self.loaded.experiment.model;
        self.current_part.map_or(whole, |(_, part)| part)
    }

    /// The full name of a key: one of `model` may belong to the part being checked.
    fn full_key(&self, key: &str) -> String {
        let Some((name, _)) = self.current_part else {
            return key.to_owned();
        };
        let part = format!("model.{name}");
        match key.strip_prefix("model") {
            _ if key.starts_with(&part) => key.to_owned(),
            Some(rest) if rest.is_empty() || rest.starts_with('.') => format!("{part}{rest}"),
            _ => key.to_owned(),
        }
    }

    /// Adds an error about dotted keys. The first key's table names it. It is located at the first key that a `--set` or,
    /// failing that, a file sets.
    fn fault(&mut self, keys: &[&str], rule: impl AsRef<str>) {
        let keys: Vec<String> = keys.iter().map(|key| self.full_key(key)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let table = keys[0].rsplit_once('.').map_or("", |(table, _)| table);
        let origin = self.origin_of(&keys);
        let message =
            faults::prefix_with_table(table, &self.with_unset_hint(&keys, &origin, rule.as_ref()));
        let fault = messages::placed(&self.loaded.path, Some(&origin), message);
        self.faults.push(fault);
    }

    /// Adds an error that is named by a key's table but located at another key, if a file or a `--set` sets that one.
    fn fault_at(&mut self, key: &str, place: &str, rule: impl AsRef<str>) {
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let origin = self.origin_of(&[place, key]);
        let message = faults::prefix_with_table(
            table,
            &self.with_unset_hint(&[place, key], &origin, rule.as_ref()),
        );
        let fault = messages::placed(&self.loaded.path, Some(&origin), message);
        self.faults.push(fault);
    }

    /// Extends a rule by the way to unset a key of an extended file.
    fn with_unset_hint(&self, keys: &[&str], origin: &Origin, rule: &str) -> String {
        let mut rule = rule.to_owned();
        if let Origin::File { path, .. } = origin
            && *path != self.loaded.path
            && rule.ends_with("remove it")
            && let Some(key) = keys.iter().find(|key| self.loaded.origin(key) == origin)
        {
            let file = self.loaded.path.display();
            rule.push_str(&format!(" with unset = [\"{key}\"] at the top of {file}"));
        }
        rule
    }

    /// Collects the errors that a component reports about its own table, and returns the closure's result.
    fn collect_faults<T>(&mut self, table: &str, say: impl FnOnce(&mut TableFaults) -> T) -> T {
        let mut faults = Faults::default();
        let said = say(&mut faults.of(table));
        for (keys, rule) in faults.found {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            self.fault(&keys, rule);
        }
        said
    }

    fn origin_of(&self, keys: &[&str]) -> Origin {
        let origins = || keys.iter().map(|key| self.loaded.origin(key));
        let set = origins().find(|o| matches!(o, Origin::Set(_)));
        let file = origins().find(|o| matches!(o, Origin::File { .. }));
        let mut above = keys[0];
        let mut found = set.or(file);
        while let (None, Some((table, _))) = (found, above.rsplit_once('.')) {
            above = table;
            found = self.loaded.origins.get(above);
        }
        found.cloned().unwrap_or_default()
    }

    /// Adds an error worded by a lower layer: `[table] key = …`, or a sentence about keys of `table`.
    fn add_worded(&mut self, table: &str, text: &str) {
        let (table, text) = text
            .strip_prefix('[')
            .and_then(|t| t.split_once("] "))
            .unwrap_or((table, text));
        // The parts of a path are not keys.
        let said = text.split_whitespace().filter(|said| !said.contains('/'));
        let words =
            said.flat_map(|said| said.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
        let keys = words.map(|word| format!("{table}.{word}"));
        let known = |key: &String| self.loaded.origins.contains_key(key);
        let key = keys.into_iter().find(known);
        let key = key.or_else(|| self.key_with_value(table, text));
        let key = key.unwrap_or_else(|| format!("{table}.kind"));
        self.fault(&[&key], text);
    }

    /// Checks that a count is between 1 and `most`; returns whether it is.
    fn count(&mut self, key: &str, value: usize, most: usize) -> bool {
        self.collect_faults("", |at| at.count(key, value, most))
    }

    /// The key of a table whose value, or an element of whose list, is the first text in backticks.
    fn key_with_value(&self, table: &str, text: &str) -> Option<String> {
        let value = text.split('`').nth(1).filter(|value| !value.is_empty())?;
        let of_table = |name: &str| {
            let key = name
                .strip_prefix(table)
                .and_then(|rest| rest.strip_prefix('.'));
            key.is_some_and(|key| !key.contains('.'))
        };
        let holds = |written: &toml::Value| match written {
            toml::Value::Array(items) => items.iter().any(|item| item.as_str() == Some(value)),
            other => other.as_str() == Some(value),
        };
        let mut all = self.loaded.written_values.iter();
        let found = all.find(|(name, written)| of_table(name) && holds(written));
        found.map(|(name, _)| name.clone())
    }

    /// Checks that an optional number of steps or items is at least 1.
    fn require_positive(&mut self, key: &str, value: Option<u64>) {
        if value == Some(0) {
            let name = last(key);
            self.fault(
                &[key],
                format!("{name} = 0 must be 1 or more; remove it to disable it"),
            );
        }
    }

    /// Checks that a value is a probability below 1.
    fn probability(&mut self, key: &str, value: f64) {
        self.collect_faults("", |at| at.probability(key, value));
    }
}

/// The last part of a dotted key.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}
