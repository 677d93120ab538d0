//! Combines files, `extends`, presets and `--set` into one tree, and deserialises the tree into an [`Experiment`]. Stops at the
//! first error of syntax or type.

mod aliases;
mod alternatives;
mod defaults;
mod duplicate;
mod escape;
mod key_origins;
pub(super) mod messages;
mod parse;
mod read;
mod show;
mod source;
mod tree;
mod unknown_key;
mod unset;

pub use aliases::key_of;

use super::prerequisite::{DEFAULT_FOLDER, canonical};
use super::{Experiment, LoadedExperiment, Origin, epochs};
use crate::error::{Error, Fault, Result};
use crate::model::preset;
use read::Reason;
pub use show::{annotated_toml, inline, resolved_toml, unset_comment};
use source::read_source;
use std::path::{Path, PathBuf};
use tree::{MergeMode, Node, Table, Value};
pub(super) use unset::UNSET;

/// Maximum length of a chain of files that extend each other.
const MAX_EXTENDS: usize = 16;
/// Maximum number of parts of a dotted key: more than any key has, and few enough to limit the nesting of tables.
const MAX_WORDS: usize = 32;

/// Reads an experiment file and the files it extends, then merges `sets` (`a.b=c`) over it.
///
/// # Errors
/// [`Error::Invalid`] with the first error of syntax or type, located at its file and line, or its `--set`.
pub fn load(path: &Path, sets: &[String]) -> Result<LoadedExperiment> {
    load_from(path, sets, Path::new(DEFAULT_FOLDER), &[])
}

/// As [`load`], with the runs of experiments that `[init] from` or a teacher name in the folder `runs`.
///
/// # Errors
/// As [`load`].
pub fn load_with_runs(path: &Path, sets: &[String], runs: &Path) -> Result<LoadedExperiment> {
    load_from(path, sets, runs, &[])
}

/// As [`load_with_runs`], for a file that the files in `seen` led to.
pub(super) fn load_from(
    path: &Path,
    sets: &[String],
    runs: &Path,
    seen: &[PathBuf],
) -> Result<LoadedExperiment> {
    let source = read_source(path).map_err(|reason| {
        invalid(Fault::new(format!(
            "cannot read {}: {reason}",
            path.display()
        )))
    })?;
    read_text(path, source, sets)?.resolve_prerequisites(runs, seen)
}

/// As [`load`], with `source` in place of the content of the file at `path`.
///
/// # Errors
/// As [`load`].
pub fn load_text(path: &Path, source: String, sets: &[String]) -> Result<LoadedExperiment> {
    read_text(path, source, sets)?.resolve_prerequisites(Path::new(DEFAULT_FOLDER), &[])
}

fn read_text(path: &Path, source: String, sets: &[String]) -> Result<LoadedExperiment> {
    let mut layers = parse_chain(path, &source).map_err(invalid)?;
    layers.push(overrides(sets).map_err(invalid)?);
    let (stacked, unset) = merge_layers(path, layers).map_err(invalid)?;
    let mut root = Node {
        value: Value::Table(stacked),
        origin: Origin::Default,
    };
    let mut experiment = loop {
        match read::read::<Experiment>(&mut root) {
            Ok(experiment) => break experiment,
            Err((at, Reason::Missing(key)))
                if key == "kind" && defaults::fill_default_kind(&mut root, &at) => {}
            Err((at, reason)) => return Err(invalid(messages::fault(path, &root, &at, &reason))),
        }
    };
    let (origins, written) = key_origins::origins_and_values(&root);
    epochs::keep_latest(&mut experiment.train, path, &origins);
    defaults::disable_unmeasurable(&mut experiment, &origins);
    Ok(LoadedExperiment {
        experiment,
        origins,
        written_values: written,
        unset_messages: unset,
        source,
        path: path.to_path_buf(),
        prerequisites: Vec::new(),
    })
}

fn invalid(fault: Fault) -> Error {
    Error::Invalid(vec![fault])
}

/// Parses the files that extend each other, base first and this file last.
fn parse_chain(path: &Path, source: &str) -> Result<Vec<Table>, Fault> {
    let mut layers = Vec::new();
    let mut seen = vec![canonical(path)];
    let (mut path, mut source) = (path.to_path_buf(), source.to_string());
    loop {
        let file = path.clone();
        let origin = move |line| Origin::File {
            path: file.clone(),
            line,
        };
        let mut layer = parse::parse(&path, &source, &origin)?;
        let (extends, base) = (layer.remove("extends"), layer.remove("base"));
        if let (Some(_), Some(base)) = (&extends, &base) {
            let rule = "base and extends both name the file that this one extends; keep one";
            return Err(messages::placed(&path, Some(&base.origin), rule.into()));
        }
        let word = if base.is_some() { "base" } else { "extends" };
        let extends = extends.or(base);
        layers.push(layer);
        let Some(node) = extends else { break };
        let fault = |message| messages::placed(&path, Some(&node.origin), message);
        let Value::String(name) = &node.value else {
            let shown = node.to_short_toml();
            return Err(fault(format!(
                "{word} = {shown} must be the path of a file"
            )));
        };
        if name.is_empty() {
            return Err(fault(format!("{word} = \"\" must be the path of a file")));
        }
        let base = path.parent().unwrap_or(Path::new("")).join(name);
        let text = read_source(&base)
            .map_err(|reason| fault(format!("{word}: cannot read {}: {reason}", base.display())))?;
        if seen.contains(&canonical(&base)) {
            return Err(fault(format!(
                "{word} = \"{name}\" leads back to this file"
            )));
        }
        if seen.len() > MAX_EXTENDS {
            return Err(fault(format!(
                "more than {MAX_EXTENDS} files extend each other"
            )));
        }
        seen.push(canonical(&base));
        (path, source) = (base, text);
    }
    layers.reverse();
    Ok(layers)
}

/// Combines all `--set a.b=c` into one layer; the last one of a key wins.
fn overrides(sets: &[String]) -> Result<Table, Fault> {
    let mut root = Table::default();
    for set in sets {
        let origin = Origin::Set(set.clone());
        let fault = |message: &str| messages::placed(Path::new(""), Some(&origin), message.into());
        let Some((key, text)) = set.split_once('=') else {
            return Err(fault("no value; write --set KEY=VALUE"));
        };
        let keys: Vec<&str> = key.split('.').map(str::trim).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if keys.iter().any(|k| k.is_empty() || !k.chars().all(plain)) {
            return Err(fault(
                "a key is words joined by dots, for example train.steps=100",
            ));
        }
        if keys.len() > MAX_WORDS {
            let rule = format!("a key has at most {MAX_WORDS} words, not {}", keys.len());
            return Err(fault(&rule));
        }
        if let ["extends" | "base"] = keys.as_slice() {
            let rule = format!(
                "`{key}` is allowed only in files; write a file with {key} = \"…\" at its top, or --set the keys themselves"
            );
            return Err(fault(&rule));
        }
        let mut node = value(text, &origin).map_err(|reason| fault(&reason))?;
        if let [unset::UNSET] = keys.as_slice()
            && let Some(all) = root.get_mut(unset::UNSET)
        {
            // Each --unset adds to the list.
            all.append(node);
            continue;
        }
        for key in keys[1..].iter().rev() {
            let mut table = Table::default();
            table.insert(key, node);
            node = Node {
                value: Value::Table(table),
                origin: origin.clone(),
            };
        }
        let mut layer = Table::default();
        layer.insert(keys[0], node);
        root.merge(layer, MergeMode::SameLayer);
    }
    Ok(root)
}

/// Parses a value as TOML, or takes the text itself as a string.
fn value(text: &str, origin: &Origin) -> Result<Node, String> {
    let string = || Node {
        value: Value::String(text.into()),
        origin: origin.clone(),
    };
    let document = format!("value = {text}");
    // A whole number that is out of range is an error, not a string.
    let is_value = |text: &str| {
        text.starts_with(['{', '[', '"', '\'']) || text.trim_end().parse::<i128>().is_ok()
    };
    match parse::parse(Path::new(""), &document, &|_| origin.clone()) {
        Ok(mut table) if table.entries.len() == 1 => {
            Ok(table.remove("value").unwrap_or_else(string))
        }
        Err(fault) if is_value(text.trim_start()) => {
            let told = ["value: ", "[value] "];
            let told = told
                .iter()
                .find_map(|name| fault.message.strip_prefix(name));
            Err(told.unwrap_or(&fault.message).to_string())
        }
        Ok(_) | Err(_) => Ok(string()),
    }
}

/// Merges the layers, the last one on top, and returns messages about unset keys. A layer that names another preset than the
/// one below discards the `[model]` below.
fn merge_layers(path: &Path, layers: Vec<Table>) -> Result<(Table, Vec<String>), Fault> {
    let (mut merged, mut gone) = (Table::default(), Vec::new());
    let mut current: Option<String> = None;
    for mut layer in layers {
        let (whole, keys): (Vec<_>, Vec<_>) = unset::take_unset(path, &mut layer)?
            .into_iter()
            .partition(|unset| unset.key == "model");
        for unset in &whole {
            // A preset in the same layer starts afresh, even if it is the same preset.
            gone.push(unset.apply(path, &mut merged)?);
            current = None;
        }
        if let Some((name, by)) = take_preset(path, &mut layer)?
            && current.as_ref() != Some(&name)
        {
            merged.remove("model");
            merged.merge(preset_table(&name, &by)?, MergeMode::OverLayer);
            current = Some(name);
        }
        for unset in &keys {
            gone.push(unset.apply(path, &mut merged)?);
        }
        alternatives::remove_alternatives(&mut merged, &layer);
        merged.merge(layer, MergeMode::OverLayer);
    }
    Ok((merged, gone))
}

/// Removes `preset` from a layer's `[model]`; returns the name and its origin.
fn take_preset(path: &Path, layer: &mut Table) -> Result<Option<(String, Origin)>, Fault> {
    let Some(Value::Table(table)) = layer.get_mut("model").map(|n| &mut n.value) else {
        return Ok(None);
    };
    let Some(node) = table.remove("preset") else {
        return Ok(None);
    };
    let fault = |message| Err(messages::placed(path, Some(&node.origin), message));
    match &node.value {
        Value::String(name) if preset::text(name).is_some() => {
            Ok(Some((name.clone(), node.origin.clone())))
        }
        Value::String(name) => {
            let near = preset::suggest_preset(name);
            fault(format!("[model] preset = \"{name}\" is not known{near}"))
        }
        _ => fault(format!(
            "[model] preset = {} must be a string",
            node.to_short_toml()
        )),
    }
}

/// Parses `[model]` of a preset that is named at `by`.
fn preset_table(name: &str, by: &Origin) -> Result<Table, Fault> {
    let origin = |_| Origin::Preset {
        name: name.into(),
        by: Box::new(by.clone()),
    };
    let text = preset::text(name).unwrap_or_default();
    let mut table = parse::parse(Path::new(name), text, &origin)?;
    table.entries.retain(|(key, _)| key == "model");
    Ok(table)
}
