//! Files with an end: what a person names, or a folder from elsewhere holds, may be a device or a pipe.

use crate::error::{Error, Result};
use std::fs;
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
