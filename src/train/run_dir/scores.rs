//! The lock under which the scores of a run are changed.

use super::{SCORES, SCORES_LOCK};
use crate::error::{Error, Result};
use crate::files;
use crate::train::links;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

/// How long those that change the scores before us may take, all together.
const TURNS: Duration = Duration::from_secs(30);

/// Waits until no other process changes the scores of a run; the others wait as long as the result lives.
///
/// # Errors
/// A lock that cannot be had, or that another process holds for long.
pub fn changing_scores(root: &Path) -> Result<File> {
    let path = root.join(SCORES_LOCK);
    links::refuse_one(&root.join(SCORES))?;
    let file = links::open_own(&path)?;
    match files::lock_within(&file, TURNS) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::run(format!(
                "{} has been locked by another process for {} seconds",
                path.display(),
                TURNS.as_secs()
            )));
        }
        Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
    }
    // Files that dead processes left. When they cannot be deleted, they do no harm.
    let _ = files::delete_leftovers(root, |file| file == SCORES);
    Ok(file)
}
