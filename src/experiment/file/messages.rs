//! Builds the messages about errors of syntax and type: what is wrong, what is allowed, and the closest valid alternative.

use super::aliases;
use super::escape::one_line;
use super::read::{self, Names, Reason, TAG, TAGGED_ENUM};
use super::tree::{Node, Value};
use super::unknown_key::unknown_key;
use crate::error::{Fault, suggestion};
use crate::experiment::schema::{Section, sections};
use crate::experiment::{Experiment, Origin};
use crate::faults;
use crate::model::preset;
use std::path::Path;

/// Builds the error for the node at `path` of a tree that is not a valid experiment.
pub(super) fn fault(file: &Path, root: &Node, path: &[String], reason: &Reason) -> Fault {
    if let Some(table) = repeated_table(root, path) {
        let message = format!(
            "write [{0}], not [[{0}]], which makes a list of tables",
            names(root, table)
        );
        return placed(file, origin(root, table), message);
    }
    let message = match reason {
        Reason::UnknownKey { key, allowed } => unknown_key(root, path, key, allowed),
        Reason::UnknownValue { allowed } => {
            let word = match root.at(path).map(|n| &n.value) {
                Some(Value::String(s)) => s.as_str(),
                _ => "",
            };
            let of_model = path == ["model", "kind"];
            let sizes = preset::sized_variants(if of_model { word } else { "" }).join(", ");
            let near = suggestion(word, allowed.iter().copied());
            let remedy = if of_model && preset::text(word).is_some() {
                format!("; it is a preset: preset = \"{word}\"")
            } else if let Some(ways) = aliases::tokenizer_advice(word, allowed) {
                format!("; {ways}")
            } else if near.ends_with('?') && !sizes.is_empty() {
                format!("{near} It has presets: {sizes}")
            } else {
                near
            };
            format!("{} is not known{remedy}", key_with_value(root, path))
        }
        Reason::Missing(key) => missing(root, path, key),
        Reason::TypeMismatch { wanted, .. } => type_mismatch(root, path, wanted),
        Reason::Length { found, wanted } => {
            let name = name(root, path);
            format!(
                "{name} has {found} items; it must be {}",
                expected_type(wanted)
            )
        }
        Reason::Other(message) => format!("{}: {message}", key_with_value(root, path)),
    };
    placed(file, origin(root, path), message)
}

/// Locates an error at an origin.
pub(in crate::experiment) fn placed(
    file: &Path,
    origin: Option<&Origin>,
    message: String,
) -> Fault {
    let message = one_line(&message);
    match origin {
        Some(Origin::File { path, line }) => Fault::at(path, *line, message),
        Some(Origin::Set(text)) => Fault::new(format!("--set {}: {message}", one_line(text))),
        Some(Origin::Preset { name, by }) => {
            placed(file, Some(by.as_ref()), format!("preset {name}: {message}"))
        }
        Some(Origin::Default) | None => Fault {
            file: Some(file.to_path_buf()),
            line: None,
            message,
        },
    }
}

/// The name of a key: `[model.position] theta`, `[[model.layers]] 2 attention: kind`, or the bare key at the top of the file.
/// List items that are not tables are named by their list.
fn name(root: &Node, path: &[String]) -> String {
    let Some((key, table)) = path.split_last() else {
        return "the file".into();
    };
    if is_item(root, path) {
        return match root.at(path).is_some_and(|node| node.table().is_some()) {
            true => header(root, path),
            false => name(root, table),
        };
    }
    match table {
        [] => key.clone(),
        _ => faults::prefix_with_table(&dotted(root, table), key),
    }
}

/// Whether a path ends in an item of a list.
fn is_item(root: &Node, path: &[String]) -> bool {
    let list = path.split_last().and_then(|(_, list)| root.at(list));
    list.is_some_and(|node| matches!(node.value, Value::Array(_)))
}

/// The dotted name of a table. A numeric key that is not the index of a list item is quoted.
fn dotted(root: &Node, table: &[String]) -> String {
    let keys = (1..=table.len()).map(|end| {
        let key = &table[end - 1];
        let quoted = key.parse::<usize>().is_ok() && !is_item(root, &table[..end]);
        match quoted {
            true => format!("\"{key}\""),
            false => key.clone(),
        }
    });
    keys.collect::<Vec<_>>().join(".")
}

/// The path of a list of tables, at or above `path`, that should be a single table: replaced by its first item, it is no longer
/// an error of type.
fn repeated_table<'p>(root: &Node, path: &'p [String]) -> Option<&'p [String]> {
    let mut above = (1..=path.len()).map(|length| &path[..length]);
    above.find(|table| {
        let Some(Value::Array(items)) = root.at(table).map(|node| &node.value) else {
            return false;
        };
        let Some(first) = items
            .first()
            .filter(|_| items.iter().all(|item| item.table().is_some()))
        else {
            return false;
        };
        let mut tree = root.clone();
        if let Some(node) = tree.at_mut(table) {
            node.value = first.value.clone();
        }
        !matches!(
            read::read::<Experiment>(&mut tree),
            Err((at, Reason::TypeMismatch { .. })) if at == **table
        )
    })
}

/// The dotted name of a table without the indices of items, as in its header.
fn names(root: &Node, table: &[String]) -> String {
    let keys = (1..=table.len()).filter(|end| !is_item(root, &table[..*end]));
    let keys: Vec<&str> = keys.map(|end| table[end - 1].as_str()).collect();
    keys.join(".")
}

/// The name of a table in messages.
pub(super) fn header(root: &Node, table: &[String]) -> String {
    faults::header(&dotted(root, table))
}

/// A key with its value: `[model.position] theta = "big"`; a table only by its name.
fn key_with_value(root: &Node, path: &[String]) -> String {
    match root.at(path) {
        Some(node) if node.table().is_none() && is_item(root, path) => {
            format!("{}: {}", name(root, path), node.to_short_toml())
        }
        Some(node) if node.table().is_none() => {
            format!("{} = {}", name(root, path), node.to_short_toml())
        }
        _ => name(root, path),
    }
}

fn type_mismatch(root: &Node, path: &[String], wanted: &str) -> String {
    if let Some(Value::Integer(..0)) = root.at(path).map(|n| &n.value)
        && matches!(wanted, "usize" | "u64" | "u32" | "u16" | "u8")
    {
        return format!("{} must not be negative", key_with_value(root, path));
    }
    let (stated, remedy) = match root.at(path).map(|n| &n.value) {
        Some(Value::Table(_)) => (name(root, path), ", not a table".into()),
        Some(Value::Array(_)) => (name(root, path), aliases::not_a_list(path)),
        _ => (key_with_value(root, path), integer_hint(root, path, wanted)),
    };
    let wish = match wanted {
        "usize" | "u64" | "u32" => {
            expected_range(root, path).unwrap_or_else(|| expected_type(wanted))
        }
        _ => expected_type(wanted),
    };
    match read::values::<Experiment>(root, path) {
        [] => format!("{stated} must be {wish}{remedy}"),
        allowed => format!("{stated} must be one of {}", list(allowed)),
    }
}

/// Strings in TOML syntax, joined by commas.
fn list(names: Names) -> String {
    let names: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
    names.join(", ")
}

/// The origin of the nearest key at or above a path.
fn origin<'a>(root: &'a Node, path: &[String]) -> Option<&'a Origin> {
    (1..=path.len())
        .rev()
        .find_map(|length| root.at(&path[..length]))
        .map(|node| &node.origin)
}

fn missing(root: &Node, path: &[String], key: &str) -> String {
    if path.is_empty() {
        if key == "name" {
            return "`name` is missing: it names the run folder".into();
        }
        return match read::kinds::<Experiment>(root, &[key.to_string()]) {
            [] => format!("the section [{key}] is missing"),
            kinds => format!(
                "the section [{key}] is missing; its kind is one of {}",
                list(kinds)
            ),
        };
    }
    let table = header(root, path);
    if key == "kind" {
        let kinds = read::kinds::<Experiment>(root, path);
        return format!("{table} has no `kind`; it must be one of {}", list(kinds));
    }
    let kind = root
        .at(path)
        .and_then(Node::table)
        .and_then(|t| t.string("kind"));
    match kind {
        Some(kind) => format!("{table} with kind = \"{kind}\" needs the key `{key}`"),
        None => format!("{table} needs the key `{key}`"),
    }
}

/// The type that serde expects, in plain words.
fn expected_type(wanted: &str) -> String {
    match wanted {
        "usize" | "u64" | "u32" => "a whole number, 0 or more".into(),
        "u16" | "u8" => "a small whole number, 0 or more".into(),
        "i64" | "i32" | "isize" => "a whole number".into(),
        "f64" | "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "string or map" | "path string" | TAG => "a string".into(),
        _ if wanted.starts_with(TAGGED_ENUM) => {
            "a table with a `kind`, or the kind alone as a string".into()
        }
        "a map" => "a table".into(),
        _ if wanted.starts_with("struct ") => "a table".into(),
        "a sequence" => "a list".into(),
        "an array of length 2" => "a list of 2".into(),
        _ => wanted.into(),
    }
}

/// The expected range of a key that has bounds in the key reference: `a whole number, 1 or more`.
fn expected_range(root: &Node, path: &[String]) -> Option<String> {
    let (key, table) = path.split_last()?;
    let kind = root.at(table).and_then(Node::table)?.string("kind");
    let table = names(root, table);
    let sections = sections();
    let has_kind = |section: &&Section| section.kind.is_none() || section.kind.as_deref() == kind;
    let mut found = sections.iter().filter(has_kind).filter(|section| {
        let mut places = std::iter::once(&section.path).chain(&section.other_paths);
        places.any(|place| place.replace("[]", "") == table)
    });
    let known = found.find_map(|section| section.keys.iter().find(|known| known.name == *key))?;
    let bounded = known.wanted.starts_with("whole number, ");
    bounded.then(|| format!("a {}", known.wanted))
}

/// A hint such as `; write 1000` if a float is given where a whole number is expected.
fn integer_hint(root: &Node, path: &[String], wanted: &str) -> String {
    match root.at(path).map(|n| &n.value) {
        Some(Value::Float(f))
            if matches!(wanted, "usize" | "u64" | "u32")
                && f.fract() == 0.0
                && (0.0..1e15).contains(f) =>
        {
            format!("; write {f:.0}")
        }
        _ => String::new(),
    }
}
