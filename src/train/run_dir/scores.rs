//! The lock for changing the scores of a run.

use super::{SCORES, SCORES_LOCK};
use crate::error::{Error, Result};
use crate::files;
use crate::train::symlinks;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

/// How long to wait for the processes that change the scores before us, in total.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// Waits until no other process changes the scores of a run; other processes wait as long as the result lives.
///
/// # Errors
/// If the file cannot be locked, or another process holds the lock for too long.
pub fn lock_scores(root: &Path) -> Result<File> {
    let path = root.join(SCORES_LOCK);
    symlinks::refuse_symlink(&root.join(SCORES))?;
    let file = symlinks::open_refusing_symlink(&path)?;
    match files::lock_within(&file, LOCK_PATIENCE) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::run(format!(
                "{} has been locked by another process for {} seconds",
                path.display(),
                LOCK_PATIENCE.as_secs()
            )));
        }
        Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
    }
    // Files that dead processes left. They do no harm if they cannot be deleted.
    let _ = files::delete_leftovers(root, |file| file == SCORES);
    Ok(file)
}
