//! Keys that may change when a run is resumed. Data, model, task and the drawing of batches may not: the result would
//! be neither the old run nor the new one.

use crate::data::files::{archive, packed};
use crate::error::{Error, Fault, Result};
use crate::experiment::Experiment;
use crate::train::transfer::begins;
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
    "lora.",
    "train.batch_size",
    "train.batch_tokens",
    "train.dtype",
    "train.carry_state",
    "optimizer.kind",
];

/// Such keys of a run that learns from texts which it writes itself.
const FIXED_WRITING: &[&str] = &["decode.sampling.end"];

/// The message about keys that give evaluations another value to be compared by, and about other examples to evaluate on.
pub(super) const CHOSEN_ANEW: &str =
    "the best evaluation is chosen anew: those so far do not compare with the ones to come";

/// The keys in which `asked` differs from what the run in `folder` was made with, `stored`; both with anchored paths.
/// Paths of data are no keys of this kind: the same content is the same data wherever it lies.
///
/// # Errors
/// [`Error::Invalid`] with every changed key that would make it another run.
pub(super) fn between(
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
    // The run that it began from may lie elsewhere by now.
    let moved = |name: &str| {
        let of_run = ["init.from", "init.image.from", "init.text.from"].contains(&name);
        begun && of_run && stored.contains_key(name) && asked.contains_key(name)
    };
    let fixed = |name: &str| is_fixed(name, writes) || begins(name) && !moved(name);
    let shown = |value: Option<&Value>| value.map_or("no value".to_string(), Value::to_string);
    let faults: Vec<Fault> = changed
        .iter()
        .filter(|name| fixed(name))
        .map(|name| {
            Fault::new(format!(
                "{name} is {} in the run {} and {} now; a run cannot go on with another: start a new one with \
                 --run DIR, or put the value back",
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

/// Whether a key stays as it was, of a run that `writes` what it learns from or of another.
fn is_fixed(name: &str, writes: bool) -> bool {
    let own = match writes {
        true => FIXED_WRITING,
        false => &[],
    };
    FIXED
        .iter()
        .chain(own)
        .any(|key| name == *key || key.ends_with('.') && name.starts_with(key))
}

/// The keys that a run may change on its way, as TOML has their values: what a checkpoint keeps of them.
///
/// # Errors
/// An experiment that cannot be spelled out.
pub(super) fn changeable(experiment: &Experiment) -> Result<BTreeMap<String, String>> {
    let all = keys(experiment)?.into_iter();
    let writes = experiment.task.grpo().is_some();
    let may = |name: &str| {
        let table = name.split('.').next().unwrap_or(name);
        let other = ["name", "expect", "ablation"].contains(&table);
        !other && !is_fixed(name, writes) && !begins(name)
    };
    Ok(all
        .filter(|(name, _)| may(name))
        .map(|(name, value)| (name, value.to_string()))
        .collect())
}

/// A line for each key that a resumed run takes with another value.
pub(super) fn told(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |all: &BTreeMap<String, String>, name: &String| {
        all.get(name).map_or("no value".to_string(), Clone::clone)
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

/// The experiment without the place of its teacher, which its weights tell apart, and with what a path of its data says
/// about the content in the path's place: how its name ends, by which files are told apart that are read in different ways,
/// and what lies inside an archive.
fn without_places(experiment: &Experiment) -> Experiment {
    let mut bare = experiment.clone();
    bare.data = bare.data.with_paths(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let plain = packed::stripped(&name);
        let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
        archive::inside(path).unwrap_or_else(|| ending.into())
    });
    bare.task = bare.task.with_paths(|_| "".into());
    bare
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
