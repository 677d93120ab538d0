//! The files that the paths of an experiment stand for: a file, a folder, a pattern (`corpus/*.parquet`).

use std::path::{Path, PathBuf};

use super::{archive, packed, splits};
use crate::error::{Error, Result};

/// Whether a path is a pattern, by its characters.
pub fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// What lies at a path: a file or folder, plain or packed, the inside of an archive that is there, or a pattern that some
/// file matches.
pub fn at(path: &Path) -> Option<PathBuf> {
    let there = packed::either(path);
    let there = there.or_else(|| archive::split(path).map(|_| path.to_path_buf()));
    there.or_else(|| {
        let matched = is_pattern(path) && matching(path).is_ok_and(|files| !files.is_empty());
        matched.then(|| path.to_path_buf())
    })
}

/// The files that paths stand for: a folder's files at any depth and a pattern's in the order of their paths, hidden ones
/// and linked folders left out.
///
/// # Errors
/// A folder that cannot be read, holds no file or those of several splits, a pattern that no file matches.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        let before = all.len();
        if path.is_dir() {
            walk(path, &mut all)?;
            splits::require_one(path, &all[before..])?;
        } else if is_pattern(path) && !path.exists() && archive::split(path).is_none() {
            all.extend(matching(path)?);
        } else {
            all.push(path.clone());
        }
        if all.len() == before {
            let what = match path.is_dir() {
                true => "the folder",
                false => "the pattern",
            };
            return Err(Error::usage(format!(
                "[data] {what} {} holds no file",
                path.display()
            )));
        }
    }
    Ok(all)
}

/// The files in a folder at any depth in the order of their paths, hidden ones and linked folders left out.
///
/// # Errors
/// A folder that cannot be read.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    walk(folder, &mut all)?;
    Ok(all)
}

/// The files that a pattern matches, in the order of their paths.
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

fn walk(folder: &Path, all: &mut Vec<PathBuf>) -> Result<()> {
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
        // A linked folder may lead back here.
        if path.is_dir() && !path.is_symlink() {
            walk(&path, all)?;
        } else if path.is_file() {
            all.push(path);
        }
    }
    Ok(())
}

/// The folder of a pattern that comes before its first part with a sign, and the rest.
pub(in crate::data) fn base(pattern: &Path) -> (PathBuf, PathBuf) {
    let parts: Vec<_> = pattern.components().collect();
    let signed = |part: &std::path::Component<'_>| is_pattern(Path::new(part.as_os_str()));
    let first = parts.iter().position(signed).unwrap_or(parts.len());
    (
        parts[..first].iter().collect(),
        parts[first..].iter().collect(),
    )
}
