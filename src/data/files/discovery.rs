//! Finds the files that the paths of an experiment stand for: a file, a folder, or a pattern
//! (`corpus/*.parquet`).

use std::path::{Path, PathBuf};

use super::{archive, packed, splits};
use crate::error::{Error, Result};

/// Whether a path is a pattern, judged by its characters.
pub fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Returns what exists at a path: a file or folder, plain or packed, a path inside an existing archive, or a
/// pattern that matches some file.
pub fn find(path: &Path) -> Option<PathBuf> {
    let there = packed::existing_variant(path);
    let there = there.or_else(|| archive::split(path).map(|_| path.to_path_buf()));
    there.or_else(|| {
        let matched = is_pattern(path) && matching(path).is_ok_and(|files| !files.is_empty());
        matched.then(|| path.to_path_buf())
    })
}

/// Returns the files that paths stand for. Folders are searched at any depth, hidden files are left out, and
/// links are followed; the files of a folder or pattern are sorted by path.
///
/// # Errors
/// If a folder cannot be read, holds no file or holds a link to itself, or a pattern matches no file.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        let before = all.len();
        if path.is_dir() {
            walk(path, &mut Vec::new(), &mut all)?;
        } else if is_pattern(path) && !path.exists() && archive::split(path).is_none() {
            all.extend(matching(path)?);
        } else {
            all.push(path.clone());
        }
        if all.len() == before {
            let what = match path.is_dir() {
                true => "no file is in the folder",
                false => "no file matches the pattern",
            };
            return Err(Error::usage(format!("[data] {what} {}", path.display())));
        }
    }
    Ok(all)
}

/// Returns the files of [`expand`] for which `keep` is true; the paths stand under `key` of `[data]`.
///
/// # Errors
/// As for [`expand`]; also if the kept files of a folder belong to several splits.
pub fn files(key: &str, paths: &[PathBuf], keep: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        let mut found = expand(std::slice::from_ref(path))?;
        found.retain(|file| keep(file));
        splits::require_single_split(key, path, &found)?;
        all.extend(found);
    }
    Ok(all)
}

/// Files that describe the tables beside them, in a folder from a hub or one that `datasets` saved.
const DESCRIPTIONS: [&str; 5] = [
    "README.md",
    "dataset_dict.json",
    "dataset_info.json",
    "dataset_infos.json",
    "state.json",
];

/// Returns the files of a path that hold examples: in a folder, those that do not merely describe others.
pub(in crate::data) fn table_files(place: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
    if !place.is_dir() {
        return files;
    }
    let described = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| DESCRIPTIONS.contains(&name))
    };
    let kept: Vec<PathBuf> = files.iter().filter(|f| !described(f)).cloned().collect();
    match kept.is_empty() {
        true => files,
        false => kept,
    }
}

/// Joins the first `most` names and adds how many more there are: `a.txt, b.txt and 3 more`.
pub(in crate::data) fn join_first(names: &[String], most: usize) -> String {
    let more = match names.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..names.len().min(most)].join(", ") + &more
}

/// Returns the files below a folder at any depth, sorted by path, without hidden ones. Links are followed.
///
/// # Errors
/// If a folder cannot be read or holds a link to itself.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    walk(folder, &mut Vec::new(), &mut all)?;
    Ok(all)
}

/// Returns the files that a pattern matches, sorted by path.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::usage(format!("[data] the pattern {}: {why}", pattern.display()))
    };
    let text = pattern.to_str().ok_or_else(|| wrong(&"it is not UTF-8"))?;
    let plain = glob::MatchOptions {
        require_literal_leading_dot: true,
        ..glob::MatchOptions::new()
    };
    let found = glob::glob_with(text, plain).map_err(|e| wrong(&e))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|e| wrong(&e))?;
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Adds the files below `folder`; `above` holds the canonical paths of its parent folders.
fn walk(folder: &Path, above: &mut Vec<PathBuf>, all: &mut Vec<PathBuf>) -> Result<()> {
    let real = folder.canonicalize().map_err(Error::io("read", folder))?;
    if above.contains(&real) {
        return Err(Error::usage(format!(
            "[data] the folder {} is a link to a folder that contains it, so its files have no end; remove the link",
            folder.display()
        )));
    }
    above.push(real);
    let mut entries = std::fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|e| e.map(|e| e.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .map_err(Error::io("read", folder))?;
    entries.sort();
    for path in entries {
        let hidden = path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            walk(&path, above, all)?;
        } else if path.is_file() {
            all.push(path);
        }
    }
    above.pop();
    Ok(())
}

/// Splits a pattern before its first component with a wildcard: the folder, and the rest.
pub(in crate::data) fn split_pattern(pattern: &Path) -> (PathBuf, PathBuf) {
    let parts: Vec<_> = pattern.components().collect();
    let signed = |part: &std::path::Component<'_>| is_pattern(Path::new(part.as_os_str()));
    let first = parts.iter().position(signed).unwrap_or(parts.len());
    (
        parts[..first].iter().collect(),
        parts[first..].iter().collect(),
    )
}
