//! Files of a sweep's folder that are put in their place whole: replaced, or made once by one of several processes.

use crate::ablation::liveness::Holder;
use crate::error::{Error, Result};
use crate::files::{self, Partial};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Replaces a file in one step.
///
/// # Errors
/// A file that cannot be written.
pub fn put_whole(path: &Path, text: &str) -> Result<()> {
    files::write(path, text.as_bytes())
}

/// Writes who holds a cell, unless a file is there. None when one is; else the lock of the claim, where there are locks.
///
/// # Errors
/// A file that cannot be written.
pub fn put_once(path: &Path, mut holder: Holder) -> Result<Option<Option<File>>> {
    let text = |holder: &Holder| {
        serde_json::to_string(holder).map_err(|e| Error::run(format!("cannot write a claim: {e}")))
    };
    // Its own name goes with it in the end, and need not for the claim to hold. It is locked before it has another.
    let mut own = Partial::beside(path).map_err(Error::io("write", path))?;
    let lock = own.file().ok().filter(|file| file.try_lock().is_ok());
    holder.locks = lock.is_some();
    let found = text(&holder)?;
    own.write_all(found.as_bytes())
        .and_then(|()| own.sync())
        .map_err(Error::io("write", path))?;
    match fs::hard_link(own.path(), path) {
        Ok(()) => Ok(Some(lock)),
        // Over NFS a link that was made can be reported as there already: the answer was lost and asked again.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let ours = fs::read_to_string(path).is_ok_and(|there| there == found);
            Ok(ours.then_some(lock))
        }
        // A file system without links.
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
