//! Files that are there whole or not at all, and locks between processes.
//!
//! A file is written beside its place under a name that no other process draws, brought to the disk and renamed:
//! a reader finds the old content or all of the new one, whatever ended the process or the machine meanwhile. So is a folder
//! (`folder`). Not here: the folders of checkpoints (`train::checkpoint`), journals that grow (`train::journal`).

mod folder;
pub mod json;
mod ordinary;
pub mod tensors;
mod wide;

pub use folder::PartialFolder;
pub use ordinary::{
    open_plain, read, read_end, read_plain, require_ordinary, require_ordinary_in, special,
};
pub use wide::require_narrow;

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How the names of files end that are not in their place yet.
const TEMPORARY: &str = ".tmp";
/// Hexadecimal digits of what is drawn for such a name.
const DRAWN: usize = 16;
/// Between two tries of a lock.
const PAUSE: Duration = Duration::from_millis(20);

/// A file on its way to its place; dropped before it is put there, it leaves nothing.
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    /// Begins a file whose place will be `target`.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let path = drawn_beside(target);
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

    /// Where it lies until it is put into its place.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file; it outlives this value, and so does a lock on it.
    ///
    /// # Errors
    /// No further file can be open.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Brings what was written to the disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Brings it to the disk and puts it into its place.
    ///
    /// # Errors
    /// The disk's; what was in its place is then still there, unless only the folder's list of names failed.
    pub fn place(self) -> io::Result<()> {
        self.sync()?;
        fs::rename(&self.path, &self.target)?;
        sync_names(folder_of(&self.target))
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Partial {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // In its place it has this name no more. Else the error that led here is the one that matters.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// The disk's; the message names the file itself.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    Partial::beside(path)
        .and_then(|mut part| {
            part.write_all(bytes)?;
            part.place()
        })
        .map_err(Error::io("write", path))
}

/// An error where a command would write its results, the file of one flag, over what it reads, the file of another.
///
/// # Errors
/// Both are one file.
pub fn require_other(
    (output_flag, output): (&str, &Path),
    (input_flag, input): (&str, &Path),
) -> Result<()> {
    let same = || Some(output.canonicalize().ok()? == input.canonicalize().ok()?);
    match same() == Some(true) && output.is_file() {
        false => Ok(()),
        true => Err(Error::usage(format!(
            "{output_flag} is the file of {input_flag}, {}: name another one",
            input.display()
        ))),
    }
}

/// An error where a result could not be written, since the folder of its file is not there.
///
/// # Errors
/// There is no such folder.
pub fn require_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            let [path, folder] = [path, folder].map(Path::display);
            Err(Error::usage(format!(
                "cannot write {path}: there is no folder {folder}"
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Writes a result where a person wants it: as [`write`] does where a file is or nothing yet, whichever links lead
/// there; into it where it is a pipe or a device.
///
/// # Errors
/// The disk's, or the reader's.
pub fn write_result(path: &Path, bytes: &[u8]) -> Result<()> {
    // What a process has open already is appended to: another may have written to it.
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

/// Whether a path names what a process has open, such as `/dev/stdout`, whatever kind of file that is. Other files below
/// `/dev`, such as those of `/dev/shm`, are files like any.
fn is_open_file(path: &Path) -> bool {
    let named = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    let descriptors = path.starts_with("/proc") || path.starts_with("/dev/fd");
    descriptors || named.iter().any(|name| path == Path::new(name))
}

/// Brings a file that was written under another name to the disk and puts it into its place in the same folder.
///
/// # Errors
/// The disk's.
pub fn place(part: &Path, target: &Path) -> Result<()> {
    // For writing: not every system brings a file to the disk for who can only read it.
    OpenOptions::new()
        .write(true)
        .open(part)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(part, target))
        .and_then(|()| sync_names(folder_of(target)))
        .map_err(Error::io("write", target))
}

/// Brings a folder's list of names to the disk.
///
/// # Errors
/// The disk's.
pub fn sync_folder(folder: &Path) -> Result<()> {
    sync_names(folder).map_err(Error::io("write", folder))
}

/// Deletes a file, if it is there.
///
/// # Errors
/// The disk's.
pub fn delete(path: &Path) -> Result<()> {
    gone(fs::remove_file(path), path)
}

/// Deletes a folder with all that is in it, if it is there.
///
/// # Errors
/// The disk's.
pub fn delete_folder(path: &Path) -> Result<()> {
    gone(fs::remove_dir_all(path), path)
}

/// Deletes the unfinished files that dead processes left beside those files of a folder that `ours` knows. The caller
/// makes sure that no process writes one of these meanwhile.
///
/// # Errors
/// The disk's.
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

/// The file beside which a file of this name was written; none when it is no such name. Links that are renamed into
/// their place have nothing drawn in their names.
pub fn target_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(TEMPORARY)?;
    let drawn = |end: &str| end.len() == DRAWN && end.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once('.') {
        Some((target, end)) if drawn(end) => Some(target),
        _ => Some(name),
    }
}

/// Opens a file that is there to be locked; it is made where it is missing. For writing: over NFS the lock is one of the
/// file's bytes, which a reader cannot take.
///
/// # Errors
/// A file that cannot be opened.
pub fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(path)
}

/// Opens a file to ask for its lock, if the file is there.
///
/// # Errors
/// A file that is not there or cannot be opened.
pub fn open_there(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Locks a file, unless another holds it for longer than `patience`. The system takes the lock back from a process that
/// ends.
///
/// # Errors
/// Another holds it; locks that cannot be had.
pub fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => sleep(PAUSE),
            settled => return settled,
        }
    }
}

/// A name beside `target` that no other process draws: process numbers repeat in containers and on other machines that
/// share the folder, keys of hash maps are drawn by the system for each process.
fn drawn_beside(target: &Path) -> PathBuf {
    let drawn = RandomState::new().build_hasher().finish();
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{drawn:0DRAWN$x}{TEMPORARY}"));
    target.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_names(folder: &Path) -> io::Result<()> {
    // Only Unix can open a folder as a file.
    if !cfg!(unix) {
        return Ok(());
    }
    use ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A file system that has no such request, or a folder whose names may not be listed.
        Err(e) if [InvalidInput, Unsupported, PermissionDenied].contains(&e.kind()) => Ok(()),
        synced => synced,
    }
}

fn gone(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("delete", path)(e)),
        _ => Ok(()),
    }
}

/// The folder of the user's caches, as the environment says; that of temporary files where it says none.
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
