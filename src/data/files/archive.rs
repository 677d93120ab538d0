//! Files inside an archive: `x.tar.gz/train` means the files under `train` in `x.tar.gz`.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// File name endings of archives.
const ENDINGS: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".tar.zst"];

/// A file of an archive: its path inside the archive, and its content.
pub type Entry = (String, Vec<u8>);

/// Splits a path into an existing archive and the path inside it (empty if it names the archive itself).
pub fn split(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let archive = path.ancestors().find(|a| is_archive(a) && a.is_file())?;
    let inside = path.strip_prefix(archive).ok()?;
    Some((archive.to_path_buf(), inside.to_path_buf()))
}

/// Returns the part of a path inside an archive, judged only by names: the archive need not exist.
pub fn inside(path: &Path) -> Option<PathBuf> {
    let archive = path.ancestors().find(|above| is_archive(above))?;
    let inside = path.strip_prefix(archive).ok()?;
    (!inside.as_os_str().is_empty()).then(|| inside.to_path_buf())
}

/// Whether a file name is that of an archive.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str());
    name.is_some_and(|n| ENDINGS.iter().any(|e| n.to_lowercase().ends_with(e)))
}

/// Returns the files of an archive at or under `inside`, sorted by path, without hidden ones. Paths are
/// relative to `inside`; the path of the file `inside` itself is its name.
///
/// # Errors
/// If the archive cannot be read, is damaged, or holds no such file.
pub fn entries(archive: &Path, inside: &Path) -> Result<Vec<Entry>> {
    let content = super::packed::content(archive)?;
    let damaged =
        |e: std::io::Error| Error::run(format!("{} is a damaged archive: {e}", archive.display()));
    let mut found = Vec::new();
    let mut tops = Vec::new();
    let mut reader = tar::Archive::new(content.as_slice());
    for entry in reader.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().map_err(damaged)?.into_owned();
        let path = path.strip_prefix(".").unwrap_or(&path).to_path_buf();
        if path.iter().any(|p| p.to_string_lossy().starts_with('.')) {
            continue;
        }
        let Ok(below) = path.strip_prefix(inside) else {
            let top = path.iter().next().map(|p| p.to_string_lossy().into_owned());
            tops.extend(top.filter(|t| tops.len() < 8 && !tops.contains(t)));
            continue;
        };
        let name = if below.as_os_str().is_empty() {
            Path::new(path.file_name().unwrap_or_default())
        } else {
            below
        };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        found.push((name.to_string_lossy().into_owned(), bytes));
    }
    if found.is_empty() {
        return Err(no_files_error(archive, inside, &tops));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn no_files_error(archive: &Path, inside: &Path, tops: &[String]) -> Error {
    let archive = archive.display();
    if tops.is_empty() {
        return Error::usage(format!("[data] the archive {archive} contains no file"));
    }
    let tops: Vec<String> = tops.iter().map(|t| format!("`{t}`")).collect();
    Error::usage(format!(
        "[data] the archive {archive} contains no file at `{}`; its top level contains {}",
        inside.display(),
        tops.join(", ")
    ))
}
