//! Fingerprints of the files of a run's data. They are compared when the run is resumed, since a run that
//! continues with other examples is a different run.
//!
//! The fingerprint of a file is the SHA-256 of its content, the same for plain and packed files. That of a
//! folder, of a pattern or of the files that a table names is a hash of the names and sizes of the files,
//! which may be too many to read (`folder`). Files at the same path with the same size and timestamps are not
//! read again.

mod folder;

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::data::files::packed::Unpacked;
use crate::data::files::{archive, discovery};
use crate::data::{DataConfig, DataSet, SearchPath};
use crate::digest;
use crate::error::{Error, Result};
use crate::one_table::is_usual;

/// Fingerprint of the content of a path of `[data]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Key that names the path.
    pub key: String,
    /// Path at which the content was found.
    pub path: PathBuf,
    /// Size on disk, in bytes.
    bytes: u64,
    /// Time of the last modification, in nanoseconds since 1970; 0 for folders.
    modified: u64,
    /// Time of the last change of content, name, permissions or dates (ctime), in nanoseconds since 1970;
    /// programs cannot reset it. 0 for folders, on systems without it, and in runs of earlier versions.
    #[serde(default, skip_serializing_if = "is_usual")]
    touched: u64,
    /// SHA-256 of the content, or of the names and sizes of the files in a folder or of those that a table
    /// names.
    pub sha256: String,
    /// Sizes of a folder's files by their relative names, unless there are too many to list; empty in runs of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, u64>,
    /// Contents that the run read before it was resumed with other ones, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<PreviousContent>,
}

/// A content that a run read until it was resumed with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousContent {
    /// Last step that was taken with this content.
    pub until: u64,
    /// Path at which it was found.
    pub path: PathBuf,
    /// SHA-256 of the content.
    pub sha256: String,
}

impl Fingerprint {
    /// Returns the fingerprint of a file that a run reads from `step` on, with the history of `was`, its
    /// fingerprint until then. Contents with which no step was taken are dropped from the history.
    #[must_use]
    pub fn with_history(mut self, was: &Self, step: u64) -> Self {
        self.earlier.clone_from(&was.earlier);
        if was.sha256 != self.sha256 {
            self.earlier.push(PreviousContent {
                until: step,
                path: was.path.clone(),
                sha256: was.sha256.clone(),
            });
        }
        // A run that lost checkpoints continues from an earlier step.
        let mut from = 0;
        self.earlier.retain_mut(|earlier| {
            earlier.until = earlier.until.min(step);
            let taken = earlier.until > from;
            from = from.max(earlier.until);
            taken
        });
        while self.earlier.last().is_some_and(|e| e.sha256 == self.sha256) {
            self.earlier.pop();
        }
        self
    }
}

/// A file of the data as it was found.
#[derive(Clone, Debug)]
pub struct LocatedFile {
    /// The path in `[data]`.
    pub given: PathBuf,
    /// Where the file was found, if the path itself does not lead to it.
    pub found_at: Option<PathBuf>,
    /// Fingerprint of its content.
    pub print: Fingerprint,
}

/// Returns the fingerprints of all files that the data names, in its order, followed by those of the files
/// that its tables name. `before` holds the run's earlier fingerprints, which save reading unchanged files
/// again. If a path that is also in the run's `own` data leads to no file or to a different content, the file
/// at its earlier location is used, provided that its content is unchanged. A path that is not in `own` is
/// used as it is.
///
/// # Errors
/// If a file does not exist or cannot be read.
pub fn fingerprints(
    data: &DataConfig,
    places: &SearchPath,
    before: &[Fingerprint],
    own: &DataConfig,
) -> Result<Vec<LocatedFile>> {
    let own = own.data_set().paths();
    let paths = data.data_set().paths().into_iter().enumerate();
    let mut all: Vec<LocatedFile> = paths
        .map(|(number, (key, given))| {
            let known = before.get(number).filter(|known| known.key == key);
            let print = |path: &Path| path_fingerprint(data.data_set(), key, path, before);
            let led = places.resolve(given).and_then(|path| print(&path));
            let same = |print: &Fingerprint| known.is_none_or(|k| k.sha256 == print.sha256);
            if led.as_ref().is_ok_and(same) {
                return led.map(|print| found(given, None, print));
            }
            let old = known.filter(|_| own.get(number).is_some_and(|own| own.1 == given));
            let old = old.map(|known| known.path.clone());
            let old = old.and_then(|path| Some((print(&path).ok()?, path)));
            match old.filter(|(print, _)| same(print)) {
                Some((print, path)) => {
                    let whole = archive::inside(given).map_or(path.clone(), |i| path.join(i));
                    Ok(found(given, Some(whole), print))
                }
                None => led.map(|print| found(given, None, print)),
            }
        })
        .collect::<Result<_>>()?;
    let place = |path: &Path| {
        let moved = all.iter().find(|found| found.given == path);
        let elsewhere = moved.and_then(|found| found.found_at.clone());
        elsewhere.unwrap_or_else(|| path.to_path_buf())
    };
    let named = data.with_paths(place).data_set().referenced_files(places);
    for (key, folder, files) in named.map_err(Error::into_usage_error)? {
        let mut print = folder::listing_fingerprint(key, folder.clone(), &files)?;
        // A relative path to the working folder itself is empty.
        print.path = absolute(Path::new(".").join(&folder));
        all.push(found(&folder, None, print));
    }
    Ok(all)
}

fn found(given: &Path, elsewhere: Option<PathBuf>, print: Fingerprint) -> LocatedFile {
    LocatedFile {
        given: given.to_path_buf(),
        found_at: elsewhere,
        print,
    }
}

/// Returns the fingerprint of a file, a folder or an archive.
fn path_fingerprint(
    set: &dyn DataSet,
    key: &str,
    path: &Path,
    before: &[Fingerprint],
) -> Result<Fingerprint> {
    let path = archive::split(path).map_or(path.to_path_buf(), |(archive, _)| archive);
    let path = absolute(path);
    match path.is_dir() || (discovery::is_pattern(&path) && !path.exists()) {
        true => folder::fingerprint_files(set, key, path, before),
        false => file(key, path, before),
    }
}

/// Returns the absolute path, which is valid from any working folder; unchanged if the absolute path is not
/// valid UTF-8 and so cannot be stored.
fn absolute(path: PathBuf) -> PathBuf {
    let whole = path.canonicalize().ok();
    whole.filter(|p| p.to_str().is_some()).unwrap_or(path)
}

/// Returns the first path whose key or content differs from before.
pub fn first_changed<'a>(
    before: &[Fingerprint],
    now: &'a [Fingerprint],
) -> Option<&'a Fingerprint> {
    let differs = |(i, now): &(usize, &Fingerprint)| {
        let before = before.get(*i).map(|b| (&b.key, &b.sha256));
        before != Some((&now.key, &now.sha256))
    };
    let found = now.iter().enumerate().find(differs).map(|(_, now)| now);
    found.or_else(|| now.last().filter(|_| before.len() > now.len()))
}

fn file(key: &str, path: PathBuf, before: &[Fingerprint]) -> Result<Fingerprint> {
    crate::files::require_regular(&path)?;
    let about = std::fs::metadata(&path).map_err(Error::io("read", &path))?;
    let since = about
        .modified()
        .ok()
        .and_then(|m| m.duration_since(UNIX_EPOCH).ok());
    let modified = since
        .and_then(|s| u64::try_from(s.as_nanos()).ok())
        .unwrap_or(0);
    let bytes = about.len();
    let touched = touched(&about);
    let as_then = [bytes, modified, touched];
    let same = |b: &&Fingerprint| b.path == path && [b.bytes, b.modified, b.touched] == as_then;
    let sha256 = match before.iter().find(same).filter(|_| modified > 0) {
        Some(known) => known.sha256.clone(),
        None => {
            let content = Unpacked::open(&path)?;
            let (sum, _) = digest::sha256(content).map_err(|e| Unpacked::fault(&path, e))?;
            digest::hex(&sum)
        }
    };
    let key = key.to_owned();
    Ok(Fingerprint {
        key,
        path,
        bytes,
        modified,
        touched,
        sha256,
        files: BTreeMap::new(),
        earlier: Vec::new(),
    })
}

/// Time of the last change of a file's inode (ctime), in nanoseconds since 1970.
#[cfg(unix)]
fn touched(about: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let nanoseconds = i128::from(about.ctime()) * 1_000_000_000 + i128::from(about.ctime_nsec());
    u64::try_from(nanoseconds).unwrap_or(0)
}

/// Other systems have no such time.
#[cfg(not(unix))]
fn touched(_about: &Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(sha256: &str) -> Fingerprint {
        Fingerprint {
            key: "path".into(),
            path: "words.txt".into(),
            bytes: 1,
            modified: 0,
            touched: 0,
            sha256: sha256.into(),
            files: BTreeMap::new(),
            earlier: Vec::new(),
        }
    }

    /// The earlier contents, each with its last step.
    fn history(print: &Fingerprint) -> Vec<(u64, &str)> {
        let each = print.earlier.iter();
        each.map(|e| (e.until, e.sha256.as_str())).collect()
    }

    #[test]
    fn a_run_keeps_the_contents_that_steps_were_taken_with() {
        let second = print("b").with_history(&print("a"), 10);
        assert_eq!(history(&second), [(10, "a")]);
        // The same content again from another path adds nothing.
        let mut moved = print("b");
        moved.path = "elsewhere.txt".into();
        assert_eq!(history(&moved.with_history(&second, 20)), [(10, "a")]);
        // No step was taken with the second content.
        assert_eq!(history(&print("c").with_history(&second, 10)), [(10, "a")]);
        assert!(print("a").with_history(&second, 10).earlier.is_empty());
        let third = print("c").with_history(&second, 30);
        assert_eq!(history(&third), [(10, "a"), (30, "b")]);
        // Resumed from a step before the last change, and from step 0.
        assert_eq!(
            history(&print("c").with_history(&third, 20)),
            [(10, "a"), (20, "b")]
        );
        assert_eq!(history(&print("c").with_history(&third, 5)), [(5, "a")]);
        assert!(print("c").with_history(&third, 0).earlier.is_empty());
    }
}
