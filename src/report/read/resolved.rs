//! Reads `resolved.toml`: the experiment of a run with every value spelled out.

use std::fs;
use std::path::Path;

use crate::error::{Error, Fault, Result};
use crate::train::run_dir::RESOLVED;

/// Whether a folder has a `resolved.toml`.
pub fn exists_in(folder: &Path) -> bool {
    folder.join(RESOLVED).is_file()
}

/// Reads the experiment of the run in a folder.
///
/// # Errors
/// If the file cannot be read, or is not TOML (with the line).
pub fn read(folder: &Path) -> Result<toml::Table> {
    let path = folder.join(RESOLVED);
    let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
    parse(&path, &String::from_utf8_lossy(&bytes))
}

/// Parses an experiment from the text of the file at `path`.
///
/// # Errors
/// If the text is not TOML (with the line).
pub fn parse(path: &Path, text: &str) -> Result<toml::Table> {
    text.parse().map_err(|e: toml::de::Error| {
        let before = e.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |b| b.matches('\n').count() + 1);
        Error::Invalid(vec![Fault::at(path, line, e.message().trim())])
    })
}

/// Returns the default name of a run: that of its folder.
pub fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Collects every leaf of a TOML value by dotted key. Lists of tables are numbered; other lists are one value.
pub fn flatten(prefix: &str, value: &toml::Value, out: &mut Vec<(String, String)>) {
    let key = |part: &str| {
        if prefix.is_empty() {
            part.to_string()
        } else {
            format!("{prefix}.{part}")
        }
    };
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(k, v)| flatten(&key(k), v, out)),
        toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, v)| flatten(&key(&i.to_string()), v, out));
        }
        toml::Value::String(text) => out.push((prefix.to_string(), text.clone())),
        other => out.push((prefix.to_string(), other.to_string())),
    }
}
