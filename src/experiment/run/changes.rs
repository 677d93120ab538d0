//! Decides which keys may change when a run is resumed. Data, model, task and batch order may not: the result would be neither
//! the old run nor the new one.

use crate::data::files::{archive, packed};
use crate::error::{Error, Fault, Result};
use crate::experiment::Experiment;
use crate::train::transfer::is_initial_weight_key;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// Keys, and tables (with a trailing dot), that must stay as they were when the run began.
const FIXED: &[&str] = &[
    "seed",
    "model.",
    "tokenizer.",
    "data.",
    "task.",
    "lora.",
    "train.batch_size",
    "train.batch_tokens",
    "train.dtype",
    "train.carry_state",
    "optimizer.kind",
];

/// Further such keys for a run that learns from texts it generates itself.
const FIXED_IN_GENERATION: &[&str] = &["decode.sampling.end"];

/// Message for changed keys that affect how evaluations are compared, and for changed evaluation examples.
pub(super) const BEST_RESET: &str =
    "the best evaluation is chosen anew: earlier evaluations are not comparable with later ones";

/// Returns the keys in which `asked` differs from `stored`, the experiment of the run in `folder`; both have anchored paths.
/// Paths of data do not count: the same content is the same data wherever it is.
///
/// # Errors
/// [`Error::Invalid`] with every changed key that must not change.
pub(super) fn changed_keys(
    stored: &Experiment,
    asked: &Experiment,
    folder: &Path,
    begun: bool,
) -> Result<Vec<String>> {
    let [stored_whole, asked_whole] = [keys(stored)?, keys(asked)?];
    let writes = stored.task.grpo().is_some();
    let [stored, asked] = [stored, asked].map(|experiment| keys(&without_places(experiment)));
    let (stored, asked) = (stored?, asked?);
    let names: BTreeSet<&String> = stored.keys().chain(asked.keys()).collect();
    let changed: Vec<&String> = names
        .into_iter()
        .filter(|name| stored.get(*name) != asked.get(*name))
        .collect();
    // The run it began from may have been moved since.
    let moved = |name: &str| {
        let of_run = ["init.from", "init.image.from", "init.text.from"].contains(&name);
        begun && of_run && stored.contains_key(name) && asked.contains_key(name)
    };
    let fixed = |name: &str| is_fixed(name, writes) || is_initial_weight_key(name) && !moved(name);
    let shown = |value: Option<&Value>| value.map_or("unset".to_string(), Value::to_string);
    let faults: Vec<Fault> = changed
        .iter()
        .filter(|name| fixed(name))
        .map(|name| {
            Fault::new(format!(
                "{name} is {} in the run {} and {} now; this key cannot change when a run is resumed: restore the value, or start \
                 a new run with --run DIR",
                shown(stored_whole.get(*name)),
                folder.display(),
                shown(asked_whole.get(*name)),
            ))
        })
        .collect();
    match faults.is_empty() {
        true => Ok(changed.into_iter().cloned().collect()),
        false => Err(Error::Invalid(faults)),
    }
}

/// Whether a key must stay as it was; `writes` says whether the run learns from texts it generates.
fn is_fixed(name: &str, writes: bool) -> bool {
    let own = match writes {
        true => FIXED_IN_GENERATION,
        false => &[],
    };
    FIXED
        .iter()
        .chain(own)
        .any(|key| name == *key || key.ends_with('.') && name.starts_with(key))
}

/// Returns the keys that may change during a run, with their values in TOML syntax, as checkpoints store them.
///
/// # Errors
/// If the experiment cannot be serialised.
pub(super) fn changeable(experiment: &Experiment) -> Result<BTreeMap<String, String>> {
    let all = keys(experiment)?.into_iter();
    let writes = experiment.task.grpo().is_some();
    let may = |name: &str| {
        let table = name.split('.').next().unwrap_or(name);
        let other = ["name", "expect", "ablation"].contains(&table);
        !other && !is_fixed(name, writes) && !is_initial_weight_key(name)
    };
    Ok(all
        .filter(|(name, _)| may(name))
        .map(|(name, value)| (name, value.to_string()))
        .collect())
}

/// One line for each key whose value changes when the run is resumed.
pub(super) fn change_messages(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |all: &BTreeMap<String, String>, name: &String| {
        all.get(name).map_or("unset".to_string(), Clone::clone)
    };
    let changed = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    changed
        .map(|name| {
            let [was, is] = [before, after].map(|all| value(all, name));
            format!("changed: {name} {was} -> {is}")
        })
        .collect()
}

/// Replaces the paths in an experiment. The teacher's path is dropped, since its weights identify it. A data path is reduced to
/// what it says about the content: its file extension, which decides how the file is read, and the path inside an archive.
fn without_places(experiment: &Experiment) -> Experiment {
    let mut bare = experiment.clone();
    bare.data = bare.data.with_paths(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let plain = packed::strip_ending(&name);
        let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
        archive::inside(path).unwrap_or_else(|| ending.into())
    });
    bare.task = bare.task.with_paths(|_| "".into());
    bare
}

/// Returns every value by its dotted key.
fn keys(experiment: &Experiment) -> Result<BTreeMap<String, Value>> {
    let table = Table::try_from(experiment)
        .map_err(|e| Error::run(format!("cannot serialise the experiment: {e}")))?;
    let mut keys = BTreeMap::new();
    collect(table, "", &mut keys);
    Ok(keys)
}

fn collect(table: Table, prefix: &str, keys: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        let name = match prefix {
            "" => key,
            _ => format!("{prefix}.{key}"),
        };
        match value {
            Value::Table(table) => collect(table, &name, keys),
            other => {
                keys.insert(name, other);
            }
        }
    }
}
