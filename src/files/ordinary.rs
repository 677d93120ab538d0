//! Files with an end: what a person names, or a folder from elsewhere holds, may be a device or a pipe.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// An error unless a path leads to a file with an end: a device or a pipe may never come to one, or wait for ever.
/// Whether there is anything at all is for the reader to say.
///
/// # Errors
/// A folder, a pipe, a socket or a device.
pub fn require_ordinary(path: &Path) -> Result<()> {
    match special(path) {
        Some(kind) => Err(Error::usage(format!(
            "{} is {kind}, not a file; give a file",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// What a path leads to in words, unless that is a file or nothing.
pub fn special(path: &Path) -> Option<&'static str> {
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
        false => "no file",
    })
}

/// [`require_ordinary`] for all that is in a folder that came from elsewhere, folders inside it included; links to folders
/// are theirs who follow them.
///
/// # Errors
/// A pipe, a socket or a device, or a link to one; a folder that cannot be read.
pub fn require_ordinary_in(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if !path.is_dir() {
            require_ordinary(&path)?;
        } else if !path.is_symlink() {
            require_ordinary_in(&path)?;
        }
    }
    Ok(())
}

/// The content of a file that a person named.
///
/// # Errors
/// No ordinary file, or one that cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    require_ordinary(path)?;
    fs::read(path).map_err(Error::io("read", path))
}

/// Opens for reading what is a file itself: no link, no pipe, no device. For a folder from elsewhere whose files are
/// shown as they are: a link in it may lead to any file of the reader.
///
/// # Errors
/// No such file, one that is not a file itself, or the system's.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe without a writer would be waited for.
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

/// The first `most` bytes of what is a file itself, as text, and whether that is all of it.
///
/// # Errors
/// As [`open_plain`].
pub fn read_plain(path: &Path, most: u64) -> io::Result<(String, bool)> {
    let mut bytes = Vec::new();
    let file = open_plain(path)?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 <= most;
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok((String::from_utf8_lossy(&bytes).into_owned(), whole))
}

/// The last `most` bytes of what is a file itself, as text that begins with a line.
///
/// # Errors
/// As [`open_plain`].
pub fn read_end(path: &Path, most: u64) -> io::Result<String> {
    let mut file = open_plain(path)?;
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
