//! Reads the text of an experiment file, or explains why it cannot be read.

use crate::error::nearest;
use crate::train::run_dir::{self, RESOLVED};
use std::path::Path;

/// Reads a file; the error says why it cannot be read.
pub(super) fn read_source(path: &Path) -> Result<String, String> {
    if path.is_dir() {
        return Err(format!("it is a folder{}", experiment_in(path)));
    }
    if let Some(kind) = crate::files::special_file_kind(path) {
        return Err(format!("it is {kind}"));
    }
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("no such file{}", similar_file_hint(path)),
        _ => error.to_string(),
    })?;
    if let Err(wide) = crate::files::refuse_utf16("it", &bytes) {
        return Err(wide.to_string());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        format!("line {line} is not UTF-8 text")
    })
}

/// A clause that names the experiment of the run in a folder.
fn experiment_in(folder: &Path) -> String {
    match run_dir::is_run(folder) {
        true => format!(
            " of a run; its experiment is {}",
            folder.join(RESOLVED).display()
        ),
        false => String::new(),
    }
}

/// `; did you mean …?` if a file in the same folder has a similar name.
fn similar_file_hint(path: &Path) -> String {
    let run = run_dir::locate(path);
    if run != path {
        let experiment = experiment_in(&run);
        return format!(", and {} is a folder{experiment}", run.display());
    }
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    let wanted = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    match nearest(wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {}?", path.with_file_name(near).display()),
        None => String::new(),
    }
}
