//! Atomic creation of folders: they appear complete or not at all.
//!
//! A folder is filled beside its target, under a unique name as for [`super::Partial`], and renamed when it is complete:
//!
//! ```text
//! NAME.0123456789abcdef.tmp/lock    held while a process fills the folder
//! NAME.0123456789abcdef.tmp/NAME/   the folder that becomes NAME
//! ```
//!
//! The lock of a process that was killed is free: the next process that creates the same folder deletes what it left. If the
//! target is an empty folder, it is kept, since it may be a mount point or a shell's working folder. It is then filled from a
//! temporary folder inside it, whose entries are moved one by one.

use super::{
    RANDOM_DIGITS, TEMPORARY, delete_folder, folder_of, open_existing_lock, open_lock,
    random_sibling, sync_folder, target_of,
};
use crate::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the file that is locked while a folder is filled.
const LOCK: &str = "lock";

/// A folder that is being filled and will be moved to its target; if it is dropped before that, it is deleted.
#[derive(Debug)]
pub struct PartialFolder {
    /// The temporary folder, which is deleted in the end.
    outer: PathBuf,
    /// The folder inside it that is filled.
    contents: PathBuf,
    target: PathBuf,
    /// Whether the target is an existing empty folder, which is kept.
    keeps_target: bool,
    /// The parent folders that were created for the target, the innermost first.
    parents: Vec<PathBuf>,
    lock: Option<File>,
}

impl PartialFolder {
    /// Prepares a folder whose target is `target`, and deletes what killed processes left of it. The caller creates the
    /// folder [`PartialFolder::path`].
    ///
    /// # Errors
    /// If the target exists and is not an empty folder, another process is creating the same folder, or the disk fails.
    pub fn create_for(target: &Path) -> Result<Self> {
        // The working folder `.` has a name only in its canonical path.
        let whole = target.canonicalize().unwrap_or_default();
        let name = target.file_name().or(whole.file_name());
        let name = name.unwrap_or(OsStr::new("folder"));
        let stays = target.is_dir();
        let place = match stays {
            true => target.join(name),
            false => target.to_path_buf(),
        };
        delete_abandoned(folder_of(target), name, target)?;
        if stays {
            delete_abandoned(target, name, target)?;
        }
        require_vacant(target)?;
        let folder = folder_of(&place);
        let missing = folder.ancestors().take_while(|parent| {
            let named = !parent.as_os_str().is_empty();
            named && !parent.exists()
        });
        let outer = random_sibling(&place);
        let mut part = Self {
            contents: outer.join(name),
            outer,
            target: target.to_path_buf(),
            keeps_target: stays,
            parents: missing.map(Path::to_path_buf).collect(),
            lock: None,
        };
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        fs::create_dir(&part.outer).map_err(Error::io("create", target))?;
        let lock = open_lock(&part.outer.join(LOCK)).map_err(Error::io("create", target))?;
        // On a file system without locks, later processes cannot ask for this one either, so they delete nothing.
        let _ = lock.try_lock();
        part.lock = Some(lock);
        Ok(part)
    }

    /// Returns the folder to fill; the last part of its path is that of the target.
    pub fn path(&self) -> &Path {
        &self.contents
    }

    /// Syncs the folder and moves it to its target; if the target is a kept empty folder, the entry `last` is moved last.
    ///
    /// # Errors
    /// If the disk fails, or something was put at the target in the meantime.
    pub fn place(mut self, last: &str) -> Result<()> {
        sync_all(&self.contents)?;
        if self.keeps_target {
            let mut names = names(&self.contents)?;
            names.sort_by_key(|name| name == last);
            for name in names {
                let to = self.target.join(&name);
                fs::rename(self.contents.join(&name), &to).map_err(Error::io("write", &to))?;
            }
            sync_folder(&self.target)?;
        } else {
            fs::rename(&self.contents, &self.target).map_err(Error::io("write", &self.target))?;
            sync_folder(folder_of(&self.target))?;
        }
        self.parents.clear();
        Ok(())
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // Not every system can delete a file that is open.
        self.lock = None;
        // After a successful move, only the lock is left here. Otherwise, the error that led here is the one that matters.
        let _ = fs::remove_dir_all(&self.outer);
        for parent in &self.parents {
            let _ = fs::remove_dir(parent);
        }
    }
}

/// Checks that the target does not exist or is an empty folder.
fn require_vacant(target: &Path) -> Result<()> {
    let vacant = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => e.kind() == ErrorKind::NotFound,
    };
    match vacant {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{} exists and is not an empty folder; choose another folder",
            target.display()
        ))),
    }
}

/// Deletes from `folder` what killed processes left of a folder named `name`.
fn delete_abandoned(folder: &Path, name: &OsStr, target: &Path) -> Result<()> {
    let Some(wanted) = name.to_str() else {
        return Ok(());
    };
    // A folder that does not exist or may not be listed shows no leftovers.
    let Ok(names) = names(folder) else {
        return Ok(());
    };
    for name in names {
        let name = name.to_string_lossy();
        let drawn = name.len() == wanted.len() + 1 + RANDOM_DIGITS + TEMPORARY.len();
        let left = folder.join(&*name);
        let is_folder = || left.symlink_metadata().is_ok_and(|found| found.is_dir());
        if drawn && target_of(&name) == Some(wanted) && is_folder() {
            delete_unless_locked(&left, target)?;
        }
    }
    Ok(())
}

/// Deletes a temporary folder, unless its lock is held.
fn delete_unless_locked(left: &Path, target: &Path) -> Result<()> {
    let Ok(lock) = open_existing_lock(&left.join(LOCK)) else {
        // It was just created, or its process was killed at that moment: it is deleted if empty, and otherwise kept.
        let _ = fs::remove_dir(left);
        return Ok(());
    };
    match lock.try_lock() {
        Ok(()) => {
            drop(lock);
            delete_folder(left)
        }
        Err(TryLockError::WouldBlock) => Err(Error::run(format!(
            "{} is in use: another process is creating it",
            target.display()
        ))),
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn names(folder: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    entries
        .map(|entry| Ok(entry.map_err(Error::io("read", folder))?.file_name()))
        .collect()
}

/// Syncs the files of a folder and of its subfolders.
fn sync_all(folder: &Path) -> Result<()> {
    for name in names(folder)? {
        let path = folder.join(name);
        let kind = path.symlink_metadata().map_err(Error::io("read", &path))?;
        if kind.is_dir() {
            sync_all(&path)?;
        } else if kind.is_file() {
            // Opened for writing, because not every system syncs a file that is open only for reading.
            let opened = OpenOptions::new().write(true).open(&path);
            opened
                .and_then(|file| file.sync_all())
                .map_err(Error::io("write", &path))?;
        }
    }
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(target: &Path) -> PartialFolder {
        let part = PartialFolder::create_for(target).unwrap();
        fs::create_dir(part.path()).unwrap();
        for name in ["a", "marker"] {
            fs::write(part.path().join(name), name).unwrap();
        }
        part
    }

    fn sorted(folder: &Path) -> Vec<OsString> {
        let mut names = names(folder).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_folder_is_not_there_until_it_is_whole() {
        let work = tempfile::tempdir().unwrap();
        let (parent, target) = (work.path().join("new"), work.path().join("new/made"));
        drop(filled(&target));
        assert!(!parent.exists());
        let part = filled(&target);
        assert!(!target.exists());
        let error = PartialFolder::create_for(&target).unwrap_err().to_string();
        assert!(error.contains("another process is creating it"), "{error}");
        part.place("marker").unwrap();
        assert_eq!(sorted(&target), ["a", "marker"]);
        assert_eq!(sorted(&parent), ["made"]);
        let error = PartialFolder::create_for(&target).unwrap_err().to_string();
        assert!(error.contains("not an empty folder"), "{error}");
    }

    #[test]
    fn an_empty_folder_stays() {
        let work = tempfile::tempdir().unwrap();
        let target = work.path().join("made");
        fs::create_dir(&target).unwrap();
        drop(filled(&target));
        assert!(sorted(&target).is_empty());
        filled(&target).place("marker").unwrap();
        assert_eq!(sorted(&target), ["a", "marker"]);
        assert_eq!(sorted(work.path()), ["made"]);
    }

    /// A killed process runs no destructor, and its lock is released.
    #[test]
    fn what_a_killed_process_left_is_deleted_and_nothing_else() {
        let work = tempfile::tempdir().unwrap();
        let target = work.path().join("made");
        for inside in [false, true] {
            if inside {
                fs::create_dir(&target).unwrap();
            }
            let mut killed = filled(&target);
            killed.lock = None;
            std::mem::forget(killed);
            for other in ["made.tmp", "other.0123456789abcdef.tmp"] {
                fs::create_dir_all(work.path().join(other)).unwrap();
            }
            drop(filled(&target));
        }
        let left = ["made", "made.tmp", "other.0123456789abcdef.tmp"];
        assert_eq!(sorted(work.path()), left);
        assert!(sorted(&target).is_empty());
    }
}
