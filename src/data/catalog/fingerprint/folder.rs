//! Fingerprints of folders and patterns: the names and sizes of the files that are read.
//!
//! A file that no kind of data reads (`Thumbs.db` beside pictures) is not part of a fingerprint. Runs of
//! earlier versions counted all files; their fingerprints stay valid, with such files and without.

use super::Fingerprint;
use crate::data::DataSet;
use crate::data::files::discovery;
use crate::digest;
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of files in a folder that are listed by name; larger folders are identified only by their
/// hash.
const MOST_NAMED: usize = 4096;
/// Maximum number of differing files that a message names.
const MAX_SHOWN: usize = 3;

/// Returns the fingerprint of a folder, or of the files that match a pattern, under a key of `set`.
pub(super) fn fingerprint_files(
    set: &dyn DataSet,
    key: &str,
    path: PathBuf,
    before: &[Fingerprint],
) -> Result<Fingerprint> {
    let all = discovery::expand(std::slice::from_ref(&path))?;
    let read = match path.is_dir() {
        true => set.examples_in(&path, all.clone()),
        false => all.clone(),
    };
    let mut print = listing_fingerprint(key, path.clone(), &read)?;
    let known = before.iter().filter(|known| known.key == key);
    for known in known {
        let whole = known.files.is_empty() && read.len() < all.len();
        if whole && listing_fingerprint(key, path.clone(), &all)?.sha256 == known.sha256
            || !known.files.is_empty() && known.files == print.files
        {
            print.sha256.clone_from(&known.sha256);
        }
    }
    Ok(print)
}

/// Returns the fingerprint of files by their names relative to a folder and their sizes.
pub(super) fn listing_fingerprint(
    key: &str,
    path: PathBuf,
    files: &[PathBuf],
) -> Result<Fingerprint> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut named = BTreeMap::new();
    let (base, _) = discovery::split_pattern(&path);
    for file in files {
        let size = std::fs::metadata(file)
            .map_err(Error::io("read", file))?
            .len();
        let name = file.strip_prefix(&path).unwrap_or(Path::new(""));
        hash.update(format!("{}\0{size}\0", name.display()));
        bytes += size;
        if files.len() <= MOST_NAMED {
            let folder = if path.is_dir() { &path } else { &base };
            let name = file.strip_prefix(folder).unwrap_or(file);
            named.insert(name.display().to_string(), size);
        }
    }
    Ok(Fingerprint {
        key: key.to_owned(),
        path,
        bytes,
        modified: 0,
        touched: 0,
        sha256: digest::hex(&hash.finalize()),
        files: named,
        earlier: Vec::new(),
    })
}

impl Fingerprint {
    /// Describes the files in which a folder differs from what it was, at most three of them: `a/3.png is
    /// new, a/2.png is gone`. `None` for files, and for folders whose files are not listed.
    pub fn differences(&self, before: &Self) -> Option<String> {
        if self.files.is_empty() || before.files.is_empty() {
            return None;
        }
        let new = self.files.iter().filter_map(|(name, size)| {
            let was = before.files.get(name);
            match was {
                None => Some(format!("{name} is new")),
                Some(was) if was != size => Some(format!("{name} had {was} bytes and has {size}")),
                Some(_) => None,
            }
        });
        let gone = before.files.keys();
        let gone = gone.filter(|name| !self.files.contains_key(*name));
        let all: Vec<String> = new
            .chain(gone.map(|name| format!("{name} is gone")))
            .collect();
        (!all.is_empty()).then(|| discovery::join_first(&all, MAX_SHOWN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ImagesConfig;
    use std::fs;

    #[test]
    fn only_files_that_are_read_count_and_older_fingerprints_stay_valid() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir(root.join("a")).unwrap();
        for name in ["a/1.png", "a/2.png"] {
            fs::write(root.join(name), name).unwrap();
        }
        let set = ImagesConfig::default();
        let now =
            |before: &[Fingerprint]| fingerprint_files(&set, "path", root.clone(), before).unwrap();
        let first = now(&[]);
        fs::write(root.join("notes.txt"), "mine").unwrap();
        assert_eq!(now(&[]), first);
        // A run of an earlier version counted the stray file and listed no names.
        let all = discovery::expand(std::slice::from_ref(&root)).unwrap();
        let mut older = listing_fingerprint("path", root.clone(), &all).unwrap();
        older.files.clear();
        assert_ne!(older.sha256, first.sha256);
        let taken = now(std::slice::from_ref(&older));
        assert_eq!(taken.sha256, older.sha256);
        // Once its files are listed, the stray one may disappear.
        fs::remove_file(root.join("notes.txt")).unwrap();
        assert_eq!(now(std::slice::from_ref(&taken)).sha256, older.sha256);
        fs::write(root.join("a/3.png"), "more").unwrap();
        fs::write(root.join("a/1.png"), "longer text").unwrap();
        fs::remove_file(root.join("a/2.png")).unwrap();
        let other = now(std::slice::from_ref(&first));
        assert_ne!(other.sha256, first.sha256);
        assert_eq!(
            other.differences(&first).unwrap(),
            "a/1.png had 7 bytes and has 11, a/3.png is new, a/2.png is gone"
        );
    }
}
