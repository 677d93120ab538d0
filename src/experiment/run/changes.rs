//! Keys that may change when a run is resumed. Data, model, task and the drawing of batches may not: the result would
//! be neither the old run nor the new one.

use crate::error::{Error, Fault, Result};
use crate::experiment::Experiment;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// Keys, and tables (with a dot at their end), that stay as they were when the run began.
const FIXED: &[&str] = &[
    "seed",
    "model.",
    "tokenizer.",
    "data.",
    "task.",
    "train.batch_size",
    "train.batch_tokens",
    "train.dtype",
    "train.carry_state",
    "optimizer.kind",
];

/// The keys of the first weights; a run without a checkpoint has not taken these weights yet.
const BEGINNING: &[&str] = &[
    "init.from",
    "init.checkpoint",
    "init.new",
    "init.skip",
    "init.resample",
];

/// Whether `asked` differs from what the run in `folder` was made with, `stored`; both with anchored paths.
///
/// # Errors
/// [`Error::Invalid`] with every changed key that would make it another run.
pub(super) fn between(
    stored: &Experiment,
    asked: &Experiment,
    folder: &Path,
    begun: bool,
) -> Result<bool> {
    let (stored, asked) = (keys(stored)?, keys(asked)?);
    let names: BTreeSet<&String> = stored.keys().chain(asked.keys()).collect();
    let changed: Vec<&String> = names
        .into_iter()
        .filter(|name| stored.get(*name) != asked.get(*name))
        .collect();
    let fixed = |name: &str| {
        FIXED
            .iter()
            .any(|key| name == *key || key.ends_with('.') && name.starts_with(key))
            || !begun && BEGINNING.contains(&name)
    };
    let shown = |value: Option<&Value>| value.map_or("no value".to_string(), Value::to_string);
    let faults: Vec<Fault> = changed
        .iter()
        .filter(|name| fixed(name))
        .map(|name| {
            Fault::new(format!(
                "{name} is {} in the run {} and {} now; a run cannot go on with another: start a new one with \
                 --run DIR, or put the value back",
                shown(stored.get(*name)),
                folder.display(),
                shown(asked.get(*name)),
            ))
        })
        .collect();
    match faults.is_empty() {
        true => Ok(!changed.is_empty()),
        false => Err(Error::Invalid(faults)),
    }
}

/// Every value by its dotted key.
fn keys(experiment: &Experiment) -> Result<BTreeMap<String, Value>> {
    let table = Table::try_from(experiment)
        .map_err(|e| Error::run(format!("cannot spell out the experiment: {e}")))?;
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
