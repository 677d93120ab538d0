//! Files inside an archive: `x.tar.gz/train` names what lies under `train` in `x.tar.gz`.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How the names of archives end.
const ENDINGS: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".tar.zst"];

/// A file of an archive: its path there, and its content.
pub type Entry = (String, Vec<u8>);

/// The archive that a path leads into, and the path inside it (empty when it names the archive itself).
pub fn split(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let archive = path.ancestors().find(|a| is_archive(a) && a.is_file())?;
    let inside = path.strip_prefix(archive).ok()?;
    Some((archive.to_path_buf(), inside.to_path_buf()))
}

/// What a path names inside an archive, by the names alone: the archive need not be there.
pub fn inside(path: &Path) -> Option<PathBuf> {
    let archive = path.ancestors().find(|above| is_archive(above))?;
    let inside = path.strip_prefix(archive).ok()?;
    (!inside.as_os_str().is_empty()).then(|| inside.to_path_buf())
}

/// Whether a name is that of an archive.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str());
    name.is_some_and(|n| ENDINGS.iter().any(|e| n.to_lowercase().ends_with(e)))
}

/// The files of an archive at or under `inside`, in the order of their paths, hidden ones left out. Paths are
/// those below `inside`; that of the file `inside` itself is its name.
///
/// # Errors
/// An archive that cannot be read or is damaged; one that holds no such file.
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
        return Err(nothing(archive, inside, &tops));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn nothing(archive: &Path, inside: &Path, tops: &[String]) -> Error {
    let archive = archive.display();
    if tops.is_empty() {
        return Error::usage(format!("[data] the archive {archive} holds no file"));
    }
    let tops: Vec<String> = tops.iter().map(|t| format!("`{t}`")).collect();
    Error::usage(format!(
        "[data] the archive {archive} holds nothing at `{}`; at its top lie {}",
        inside.display(),
        tops.join(", ")
    ))
}
