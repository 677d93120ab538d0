//! Writes an experiment as TOML: complete, loadable, with or without the origin of every value.

use super::escape::{basic, one_line};
use crate::experiment::{Experiment, LoadedExperiment, Origin, epochs};
use std::fmt::Write;
use toml::{Table, Value};

/// Returns the whole experiment with every key that has a value. It loads back to the same experiment.
pub fn resolved_toml(experiment: &Experiment) -> String {
    render(&table(experiment), &|_| None)
}

/// As [`resolved_toml`], with a comment on every line that gives the origin of the value.
pub fn annotated_toml(loaded: &LoadedExperiment) -> String {
    let mut table = table(&loaded.experiment);
    add_switches(&mut table, loaded);
    let steps = epochs::source_epochs(loaded);
    let values = render(&table, &|key| {
        let of_epochs = steps.filter(|_| key == "train.steps");
        Some(match of_epochs {
            Some((value, origin)) => format!("from epochs = {}, {}", inline(value), place(origin)),
            None => place(loaded.origin(key)),
        })
    });
    unset_comment(loaded) + &values
}

/// Returns a comment line for each unset key, for the top of a resolved file.
pub fn unset_comment(loaded: &LoadedExperiment) -> String {
    let lines = loaded.unset_messages.iter();
    lines
        .map(|told| format!("# {}\n", one_line(told)))
        .collect()
}

pub(super) fn place(origin: &Origin) -> String {
    match origin {
        Origin::File { path, line } => format!("{}:{line}", path.display()),
        Origin::Set(text) => format!("--set {}", one_line(text)),
        Origin::Preset { name, .. } => format!("preset {name}"),
        Origin::Default => "default".into(),
    }
}

fn table(experiment: &Experiment) -> Table {
    Table::try_from(experiment)
        .expect("names and plain data make a TOML table: no map has keys that are not strings")
}

/// Adds switches that were explicitly set to their defaults, such as `tf32 = true`, which a resolved file leaves out.
fn add_switches(table: &mut Table, loaded: &LoadedExperiment) {
    for (name, value) in loaded.written_values.iter().filter(|(_, v)| v.is_bool()) {
        let Some((parents, key)) = name.rsplit_once('.') else {
            continue;
        };
        let mut parents = parents.split('.');
        let inside = parents.try_fold(&mut *table, |table, key| {
            table.get_mut(key).and_then(Value::as_table_mut)
        });
        if let Some(inside) = inside {
            inside.entry(key).or_insert_with(|| value.clone());
        }
    }
}

fn render(table: &Table, comment: &dyn Fn(&str) -> Option<String>) -> String {
    let mut lines = Vec::new();
    section(table, "", comment, &mut lines);
    let width = lines
        .iter()
        .filter(|l| l.1.is_some())
        .map(|l| l.0.chars().count());
    let width = width.filter(|w| *w <= WIDEST).max().unwrap_or(0);
    let mut text = String::new();
    for (line, comment) in lines {
        let written = match comment {
            Some(comment) => writeln!(text, "{line:width$}  # {comment}"),
            None => writeln!(text, "{line}"),
        };
        written.expect("writing to a string cannot fail");
    }
    text
}

/// Maximum width of lines whose comments are aligned.
const WIDEST: usize = 60;

type Line = (String, Option<String>);

/// Writes the keys of a table, then its subtables, each under its header.
fn section(
    table: &Table,
    prefix: &str,
    comment: &dyn Fn(&str) -> Option<String>,
    lines: &mut Vec<Line>,
) {
    let dotted = |key: &str| match prefix {
        "" => key.to_string(),
        _ => format!("{prefix}.{key}"),
    };
    for (key, value) in table.iter().filter(|(_, v)| !v.is_table()) {
        lines.push((
            format!("{} = {}", quoted(key), inline(value)),
            comment(&dotted(key)),
        ));
    }
    for (key, value) in table {
        if let Value::Table(table) = value {
            let name = dotted(&quoted(key));
            if table.is_empty() || table.values().any(|v| !v.is_table()) {
                if !lines.is_empty() {
                    lines.push((String::new(), None));
                }
                lines.push((format!("[{name}]"), None));
            }
            section(table, &name, comment, lines);
        }
    }
}

/// A key in TOML syntax, quoted if necessary.
fn quoted(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(plain) {
        key.into()
    } else {
        Value::String(key.into()).to_string()
    }
}

/// Returns a value in TOML syntax on one line.
pub fn inline(value: &Value) -> String {
    match value {
        Value::String(s) => basic(s),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) => {
            let entries = table
                .iter()
                .map(|(k, v)| format!("{} = {}", quoted(k), inline(v)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Float(f) if *f != 0.0 && !(1e-4..1e9).contains(&f.abs()) => format!("{f:e}"),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            value.to_string()
        }
    }
}
