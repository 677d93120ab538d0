//! Atomic writes of files in a sweep's folder: a file is replaced as a whole, or created by exactly one of several
//! processes.

use crate::ablation::liveness::Holder;
use crate::error::{Error, Result};
use crate::files::{self, PartialFile};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Replaces a file atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn replace_file(path: &Path, text: &str) -> Result<()> {
    files::write(path, text.as_bytes())
}

/// Writes the holder of a cell to a new file. Returns `None` if the file already exists; otherwise the lock of the
/// claim, if the file system has locks.
///
/// # Errors
/// If the file cannot be written.
pub fn create_once(path: &Path, mut holder: Holder) -> Result<Option<Option<File>>> {
    let text = |holder: &Holder| {
        serde_json::to_string(holder).map_err(|e| Error::run(format!("cannot write a claim: {e}")))
    };
    // The temporary name is deleted in the end, and the claim holds without it. The file is locked before it gets its
    // final name.
    let mut own = PartialFile::beside(path).map_err(Error::io("write", path))?;
    let lock = own.file().ok().filter(|file| file.try_lock().is_ok());
    holder.locks = lock.is_some();
    let found = text(&holder)?;
    own.write_all(found.as_bytes())
        .and_then(|()| own.sync())
        .map_err(Error::io("write", path))?;
    match fs::hard_link(own.path(), path) {
        Ok(()) => Ok(Some(lock)),
        // Over NFS, a link that was made can be reported as already there: the reply was lost, and the request was
        // repeated.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let ours = fs::read_to_string(path).is_ok_and(|there| there == found);
            Ok(ours.then_some(lock))
        }
        // The file system has no hard links.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::Unsupported | ErrorKind::PermissionDenied
            ) =>
        {
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            let mut file = match made {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
                Err(e) => return Err(Error::io("create", path)(e)),
            };
            holder.locks = file.try_lock().is_ok();
            file.write_all(text(&holder)?.as_bytes())
                .map_err(Error::io("write", path))?;
            Ok(Some(holder.locks.then_some(file)))
        }
        Err(e) => Err(Error::io("link", path)(e)),
    }
}
