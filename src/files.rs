//! Atomic writing of files, and locks between processes.
//!
//! A file is written beside its target under a unique name, synced to disk and renamed: a reader finds either the old content or
//! all of the new one, even if the process or the machine stops in between. Folders are written in the same way
//! (`folder`). Folders of checkpoints are handled in `train::checkpoint`, journals that grow in `train::journal`.

mod folder;
pub mod json;
mod regular;
pub mod tensors;
mod utf16;

pub use folder::PartialFolder;
pub use regular::{
    open_regular_unlinked, read, read_end, read_plain, require_regular, require_regular_in,
    special_file_kind,
};
pub use utf16::refuse_utf16;

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Suffix of the names of files that are not yet in their place.
const TEMPORARY: &str = ".tmp";
/// Number of random hexadecimal digits in such a name.
const RANDOM_DIGITS: usize = 16;
/// Pause between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(20);

/// A file that is being written and will be moved to its target; if it is dropped before that, it is deleted.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl PartialFile {
    /// Creates a temporary file whose target is `target`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let path = random_sibling(target);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Self {
            file,
            path,
            target: target.to_path_buf(),
        })
    }

    /// Returns the temporary path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a handle of the open file, which outlives this value, as does a lock on it.
    ///
    /// # Errors
    /// If no further file can be opened.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Syncs the written data to disk.
    ///
    /// # Errors
    /// If syncing fails.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Syncs the file and moves it to its target.
    ///
    /// # Errors
    /// If the disk fails. The target then still has its old content, unless only syncing the folder's list of names failed.
    pub fn persist(self) -> io::Result<()> {
        self.sync()?;
        fs::rename(&self.path, &self.target)?;
        sync_directory(folder_of(&self.target))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for PartialFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After a move to the target, the temporary name no longer exists. Otherwise, the error that led here is the one that
        // matters.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file atomically.
///
/// # Errors
/// If the disk fails; the message names the file itself.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    PartialFile::beside(path)
        .and_then(|mut part| {
            part.write_all(bytes)?;
            part.persist()
        })
        .map_err(Error::io("write", path))
}

/// Checks that a command does not write its results, the file of one flag, over its input, the file of another flag.
///
/// # Errors
/// If both are the same file.
pub fn require_distinct(
    (output_flag, output): (&str, &Path),
    (input_flag, input): (&str, &Path),
) -> Result<()> {
    let same = || Some(output.canonicalize().ok()? == input.canonicalize().ok()?);
    match same() == Some(true) && output.is_file() {
        false => Ok(()),
        true => Err(Error::usage(format!(
            "{output_flag} and {input_flag} are the same file, {}; choose another output file",
            input.display()
        ))),
    }
}

/// Checks that the folder of a result file exists.
///
/// # Errors
/// If the folder does not exist.
pub fn require_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            let [path, folder] = [path, folder].map(Path::display);
            Err(Error::usage(format!(
                "cannot write {path}: the folder {folder} does not exist"
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Writes a result to the place that a user named. Regular and new files are written as by [`write`], through any links; pipes and
/// devices are written to directly.
///
/// # Errors
/// If the disk or the reader of the pipe fails.
pub fn write_result(path: &Path, bytes: &[u8]) -> Result<()> {
    // Files that a process has open already are appended to: another process may have written to them.
    let open = is_open_file(path);
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() && (open || !found.is_file()) => OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(Error::io("write", path)),
        Ok(_) => write(
            &path.canonicalize().map_err(Error::io("write", path))?,
            bytes,
        ),
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("write", path)(e)),
        Err(_) => match fs::read_link(path) {
            Ok(target) => write_result(&folder_of(path).join(target), bytes),
            Err(_) => write(path, bytes),
        },
    }
}

/// Whether a path names a file that a process has open, such as `/dev/stdout`. Other files below `/dev`, such as those of
/// `/dev/shm`, are ordinary files.
fn is_open_file(path: &Path) -> bool {
    let named = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    let descriptors = path.starts_with("/proc") || path.starts_with("/dev/fd");
    descriptors || named.iter().any(|name| path == Path::new(name))
}

/// Syncs a file that was written under another name and moves it to its target in the same folder.
///
/// # Errors
/// If the disk fails.
pub fn place(part: &Path, target: &Path) -> Result<()> {
    // Opened for writing, because not every system syncs a file that is open only for reading.
    OpenOptions::new()
        .write(true)
        .open(part)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(part, target))
        .and_then(|()| sync_directory(folder_of(target)))
        .map_err(Error::io("write", target))
}

/// Syncs a folder's list of names.
///
/// # Errors
/// If the disk fails.
pub fn sync_folder(folder: &Path) -> Result<()> {
    sync_directory(folder).map_err(Error::io("write", folder))
}

/// Deletes a file, if it exists.
///
/// # Errors
/// If the disk fails.
pub fn delete(path: &Path) -> Result<()> {
    ignore_missing(fs::remove_file(path), path)
}

/// Deletes a folder with its contents, if it exists.
///
/// # Errors
/// If the disk fails.
pub fn delete_folder(path: &Path) -> Result<()> {
    ignore_missing(fs::remove_dir_all(path), path)
}

/// Deletes unfinished files that dead processes left in a folder beside target files for which `ours` holds. The caller
/// ensures that no process is writing one of them.
///
/// # Errors
/// If the disk fails.
pub fn delete_leftovers(folder: &Path, ours: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if target_of(&name).is_some_and(&ours) {
            delete(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns the target's name for the name of a temporary file; `None` for other names. The temporary names of links have
/// no random part.
pub fn target_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(TEMPORARY)?;
    let drawn =
        |end: &str| end.len() == RANDOM_DIGITS && end.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once('.') {
        Some((target, end)) if drawn(end) => Some(target),
        _ => Some(name),
    }
}

/// Opens a file that serves as a lock, creating it if necessary. It is opened for writing: over NFS a lock is a lock on the
/// file's bytes, which a reader cannot take.
///
/// # Errors
/// If the file cannot be opened.
pub fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(path)
}

/// Opens an existing file in order to take its lock.
///
/// # Errors
/// If the file does not exist or cannot be opened.
pub fn open_existing_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Locks a file, unless another process holds the lock for longer than `patience`. The system releases the lock of a process
/// that ends.
///
/// # Errors
/// If another process holds the lock, or the system provides no locks.
pub fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => sleep(PAUSE),
            settled => return settled,
        }
    }
}

/// Returns a unique name beside `target`. Process ids repeat in containers and on other machines that
/// share the folder; the keys of hash maps, used here, are drawn by the system for each process.
fn random_sibling(target: &Path) -> PathBuf {
    let drawn = RandomState::new().build_hasher().finish();
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{drawn:0RANDOM_DIGITS$x}{TEMPORARY}"));
    target.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_directory(folder: &Path) -> io::Result<()> {
    // Only Unix can open a folder as a file.
    if !cfg!(unix) {
        return Ok(());
    }
    use ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // The file system does not support this, or the folder may not be listed.
        Err(e) if [InvalidInput, Unsupported, PermissionDenied].contains(&e.kind()) => Ok(()),
        synced => synced,
    }
}

fn ignore_missing(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("delete", path)(e)),
        _ => Ok(()),
    }
}

/// Returns the user's cache folder according to the environment, or the folder of temporary files if there is none.
pub fn user_caches() -> PathBuf {
    let set = |name: &str| {
        let folder = std::env::var_os(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    caches.unwrap_or_else(std::env::temp_dir)
}

#[cfg(test)]
mod tests;
