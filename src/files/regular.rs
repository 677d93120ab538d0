//! Ordinary files, which have an end: a path from a user, or from a downloaded folder, may lead to a device or a pipe.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// Checks that a path does not lead to a device, a pipe or a folder: reading one may never end, or wait forever.
/// A path that leads to nothing passes; the reader reports it.
///
/// # Errors
/// If it is a folder, a pipe, a socket or a device.
pub fn require_regular(path: &Path) -> Result<()> {
    match special_file_kind(path) {
        Some(kind) => Err(Error::usage(format!(
            "{} is {kind}, not a file; give a file",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Describes what a path leads to; `None` if that is an ordinary file or nothing.
pub fn special_file_kind(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    if kind.is_file() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
    }
    Some(match kind.is_dir() {
        true => "a folder",
        false => "a special file",
    })
}

/// Applies [`require_regular`] to everything in a folder that came from elsewhere, including subfolders. Links to folders are not
/// followed.
///
/// # Errors
/// If there is a pipe, a socket, a device or a link to one, or a folder cannot be read.
pub fn require_regular_in(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if !path.is_dir() {
            require_regular(&path)?;
        } else if !path.is_symlink() {
            require_regular_in(&path)?;
        }
    }
    Ok(())
}

/// Reads a file that a user named.
///
/// # Errors
/// If it is not an ordinary file, or cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    require_regular(path)?;
    fs::read(path).map_err(Error::io("read", path))
}

/// Opens a regular file for reading, but no link, pipe or device. For folders from elsewhere whose files are
/// shown unchanged: a link in such a folder may lead to any file that the user can read.
///
/// # Errors
/// If the file does not exist, is not a regular file, or cannot be opened.
pub fn open_regular_unlinked(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without O_NONBLOCK, opening a pipe would wait for a writer.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    #[cfg(not(unix))]
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(ErrorKind::InvalidInput.into()),
    }
}

/// Reads the first `most` bytes of a regular file as text; also returns whether that is the whole file.
///
/// # Errors
/// As [`open_regular_unlinked`].
pub fn read_plain(path: &Path, most: u64) -> io::Result<(String, bool)> {
    let mut bytes = Vec::new();
    let file = open_regular_unlinked(path)?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 <= most;
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok((String::from_utf8_lossy(&bytes).into_owned(), whole))
}

/// Reads the last `most` bytes of a regular file as text that starts at the beginning of a line.
///
/// # Errors
/// As [`open_regular_unlinked`].
pub fn read_end(path: &Path, most: u64) -> io::Result<String> {
    let mut file = open_regular_unlinked(path)?;
    let from = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match (from, text.split_once('\n')) {
        (0, _) | (_, None) => text.into_owned(),
        (_, Some((_, lines))) => lines.to_string(),
    })
}
