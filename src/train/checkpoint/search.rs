//! Searches for the newest complete checkpoint of a run, and the newest one that the run can be resumed from.

use super::{Checkpoint, folder_name, steps};
use crate::error::{Error, Result};
use crate::train::journals;
use crate::train::run_dir::checkpoints_folder;
use std::path::Path;

/// The newest complete checkpoint, and why newer ones were refused.
#[derive(Debug, Default)]
pub struct Search {
    /// The newest complete checkpoint.
    pub found: Option<Checkpoint>,
    /// Faults of the newer checkpoints, newest first.
    pub refused: Vec<Error>,
}

impl Search {
    /// Returns the step of the checkpoint that was found; 0 if there is none.
    pub fn step(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.state().step)
    }

    /// Returns the checkpoint that was found, if no newer one was refused.
    pub fn newest(&self) -> Option<&Checkpoint> {
        self.found.as_ref().filter(|_| self.refused.is_empty())
    }
}

/// Searches for the newest complete checkpoint of a run.
pub fn newest_complete(root: &Path) -> Search {
    newest(root, |_| Ok(()))
}

/// [`newest_complete`] among the checkpoints whose journal still has all the lines that it had when they were written.
pub fn newest_to_resume(root: &Path) -> Search {
    newest(root, |checkpoint| {
        journals::require_lines(root, checkpoint.state()).map_err(|error| {
            let folder = checkpoint.folder().display();
            Error::run(format!("checkpoint {folder}: {error}"))
        })
    })
}

fn newest(root: &Path, fits: impl Fn(&Checkpoint) -> Result<()>) -> Search {
    let mut search = Search::default();
    for step in steps(root).into_iter().rev() {
        let opened = Checkpoint::open(checkpoints_folder(root).join(folder_name(step)));
        match opened.and_then(|checkpoint| fits(&checkpoint).map(|()| checkpoint)) {
            Ok(checkpoint) => {
                search.found = Some(checkpoint);
                break;
            }
            Err(error) => search.refused.push(error),
        }
    }
    search
}
