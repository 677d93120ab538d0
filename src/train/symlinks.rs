//! Symbolic links in a run folder. In a folder from elsewhere, any name may be a link that leads out of it, and a
//! process that writes to such a name would overwrite the file behind the link. So Formwork does not train in a folder
//! with links, and files that are written in place are opened without following links. `best` and `latest` are links of
//! the run itself; they are replaced, never written through.

use super::checkpoint::{BEST, LATEST};
use super::run_dir::{self, checkpoints_folder};
use crate::error::{Error, Result};
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Fails if a file or folder that a run writes is a symbolic link.
///
/// # Errors
/// If there is one; the message names it.
pub fn refuse_symlinks(root: &Path) -> Result<()> {
    let steps = checkpoints_folder(root);
    let steps_are_here = steps.symlink_metadata().is_ok_and(|found| found.is_dir());
    let folders = [Some(root), steps_are_here.then_some(steps.as_path())];
    for folder in folders.into_iter().flatten() {
        for entry in folder.read_dir().into_iter().flatten() {
            let entry = entry.map_err(Error::io("read", folder))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let ours = folder != root || run_dir::is_run_file(&name);
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

/// Fails if this file or folder is a symbolic link.
///
/// # Errors
/// If there is one; the message names it.
pub fn refuse_symlink(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(refusal(path)),
        _ => Ok(()),
    }
}

/// Fails if a folder, or anything in it, is a symbolic link.
///
/// # Errors
/// If there is a link, which the message names, or the folder cannot be read.
pub fn refuse_symlinks_in(folder: &Path) -> Result<()> {
    refuse_symlink(folder)?;
    for entry in folder.read_dir().into_iter().flatten() {
        refuse_symlink(&entry.map_err(Error::io("read", folder))?.path())?;
    }
    Ok(())
}

/// Fails if a folder that is to be created is a symbolic link whose target is missing.
///
/// # Errors
/// If so; the message names the link and its target.
pub fn require_target(root: &Path) -> Result<()> {
    match root.read_link() {
        Ok(target) if !root.exists() => Err(Error::usage(format!(
            "{} is a symbolic link, and its target {} is missing: create that folder, or name another with --run DIR",
            root.display(),
            target.display()
        ))),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn refusal(path: &Path) -> Error {
    Error::run(format!(
        "{} is a symbolic link; the files of a run are not written through links: replace the link with the file itself",
        path.display()
    ))
}

/// Opens a file of a run to change it in place, creating it if it is missing; a symbolic link is refused.
///
/// # Errors
/// If the file is a link or cannot be opened.
pub fn open_refusing_symlink(path: &Path) -> Result<File> {
    refuse_symlink(path)?;
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    no_follow(&mut options);
    options.open(path).map_err(Error::io("open", path))
}

/// Makes the open call itself refuse a symbolic link, which may have been put there after the check.
#[cfg(unix)]
fn no_follow(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(libc::O_NOFOLLOW);
}

#[cfg(not(unix))]
fn no_follow(_options: &mut OpenOptions) {}

/// The folder of a run and a check that it is still there. A folder that was moved, deleted or replaced while a process
/// trains in it is recognised by its lock file, which is then a different file or missing.
#[derive(Clone, Debug)]
pub struct FolderGuard {
    root: PathBuf,
    lock: PathBuf,
    identity: Option<(u64, u64)>,
}

impl FolderGuard {
    /// Builds the home of a run whose lock file was opened.
    pub fn new(root: &Path, lock: &Path, file: &File) -> Self {
        Self {
            root: root.to_path_buf(),
            lock: lock.to_path_buf(),
            identity: file.metadata().ok().and_then(|found| identity(&found)),
        }
    }

    /// Builds the home of a run that another process writes.
    pub fn of_other_process(root: &Path, lock: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            lock: lock.to_path_buf(),
            identity: None,
        }
    }

    /// Fails if the folder is not where it was. Called before every write: what is written to open files would be lost,
    /// and a checkpoint would recreate the folder with nothing else in it.
    ///
    /// # Errors
    /// If the folder was moved or deleted or cannot be reached; the message names it.
    pub fn require_in_place(&self) -> Result<()> {
        let there = self.lock.symlink_metadata();
        match there.as_ref().map(identity) {
            Ok(now) if now == self.identity || self.is_locked_by_us() => Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound && e.kind() != ErrorKind::NotADirectory => {
                Err(Error::run(format!(
                    "cannot reach {}: {e}",
                    self.lock.display()
                )))
            }
            _ => Err(Error::run(format!(
                "{} was moved or deleted during training; nothing more is written to it; resume the run where it is now, \
                 with: formwork resume FOLDER",
                self.root.display()
            ))),
        }
    }
}

impl FolderGuard {
    /// Whether the lock file names this process: some file systems change a file's number.
    fn is_locked_by_us(&self) -> bool {
        let holder = std::fs::read_to_string(&self.lock);
        holder.is_ok_and(|holder| holder.trim() == std::process::id().to_string())
    }
}

/// Device and inode number of a file.
#[cfg(unix)]
fn identity(found: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_found: &Metadata) -> Option<(u64, u64)> {
    None
}
