//! Symbolic links in a run folder. A folder from elsewhere may lead any of its names out of it, and a process that writes
//! to such a name would write to the file behind the link. So a folder with links is not trained in, and files that are
//! written in place are opened without following one. `best` and `latest` are links of our own; they are replaced, never
//! written through.

use super::checkpoint::{BEST, LATEST};
use super::run_dir::{self, steps_of};
use crate::error::{Error, Result};
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An error when a file or folder that a run writes is a symbolic link.
///
/// # Errors
/// With the link.
pub fn refuse(root: &Path) -> Result<()> {
    let steps = steps_of(root);
    let steps_are_here = steps.symlink_metadata().is_ok_and(|found| found.is_dir());
    let folders = [Some(root), steps_are_here.then_some(steps.as_path())];
    for folder in folders.into_iter().flatten() {
        for entry in folder.read_dir().into_iter().flatten() {
            let entry = entry.map_err(Error::io("read", folder))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let ours = folder != root || run_dir::is_own(&name);
            let linked = entry
                .file_type()
                .map_err(Error::io("read", folder))?
                .is_symlink();
            if linked && ours && ![BEST, LATEST].contains(&&*name) {
                return Err(refusal(&entry.path()));
            }
        }
    }
    Ok(())
}

/// An error when this one file or folder is a symbolic link.
///
/// # Errors
/// With the link.
pub fn refuse_one(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(refusal(path)),
        _ => Ok(()),
    }
}

/// An error when a folder, or anything in it, is a symbolic link.
///
/// # Errors
/// With the link; a folder that cannot be read.
pub fn refuse_all(folder: &Path) -> Result<()> {
    refuse_one(folder)?;
    for entry in folder.read_dir().into_iter().flatten() {
        refuse_one(&entry.map_err(Error::io("read", folder))?.path())?;
    }
    Ok(())
}

/// An error when a folder that is to be made is a symbolic link whose target is missing.
///
/// # Errors
/// With the link and its target.
pub fn require_target(root: &Path) -> Result<()> {
    match root.read_link() {
        Ok(target) if !root.exists() => Err(Error::usage(format!(
            "{} is a symbolic link, and its target {} is missing: make that folder, or name another with --run DIR",
            root.display(),
            target.display()
        ))),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn refusal(path: &Path) -> Error {
    Error::run(format!(
        "{} is a symbolic link; the files of a run are not written through links: put the file itself in its place",
        path.display()
    ))
}

/// Opens a file of a run to change it in place; it is made where it is missing, and a symbolic link is refused.
///
/// # Errors
/// A link, a file that cannot be opened.
pub fn open_own(path: &Path) -> Result<File> {
    refuse_one(path)?;
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    no_follow(&mut options);
    options.open(path).map_err(Error::io("open", path))
}

/// Opens refuse a symbolic link that was put there after the look at it.
#[cfg(unix)]
fn no_follow(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(libc::O_NOFOLLOW);
}

#[cfg(not(unix))]
fn no_follow(_options: &mut OpenOptions) {}

/// Where a run lives, as long as it is there. A folder that was moved, deleted or replaced while a process trains in it
/// is known by its lock, which is another file then, or none.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    lock: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Home {
    /// The home of a run whose lock was opened.
    pub fn new(root: &Path, lock: &Path, file: &File) -> Self {
        Self {
            root: root.to_path_buf(),
            lock: lock.to_path_buf(),
            identity: file.metadata().ok().and_then(|found| identity(&found)),
        }
    }

    /// The home of a run that another process writes.
    pub fn of_others(root: &Path, lock: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            lock: lock.to_path_buf(),
            identity: None,
        }
    }

    /// An error when the folder is not where it was. Asked before every write: what is written to files that are open
    /// would be lost, and a checkpoint would make a folder anew that holds nothing else.
    ///
    /// # Errors
    /// With the folder.
    pub fn require(&self) -> Result<()> {
        let there = self.lock.symlink_metadata();
        match there.as_ref().map(identity) {
            Ok(now) if now == self.identity || self.is_ours() => Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound && e.kind() != ErrorKind::NotADirectory => {
                Err(Error::run(format!(
                    "cannot reach {}: {e}",
                    self.lock.display()
                )))
            }
            _ => Err(Error::run(format!(
                "{} was moved or deleted while the run trains in it; nothing more is written: resume it where it lies \
                 now, with: formwork resume FOLDER",
                self.root.display()
            ))),
        }
    }
}

impl Home {
    /// Whether the lock says that this process holds it: some file systems number a file anew.
    fn is_ours(&self) -> bool {
        let holder = std::fs::read_to_string(&self.lock);
        holder.is_ok_and(|holder| holder.trim() == std::process::id().to_string())
    }
}

/// The number of a file on its device.
#[cfg(unix)]
fn identity(found: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_found: &Metadata) -> Option<(u64, u64)> {
    None
}
