//! The newest checkpoint of a run that is whole, and the newest one that the run can be resumed from.

use super::{Checkpoint, name, steps};
use crate::error::{Error, Result};
use crate::train::journals;
use crate::train::run_dir::steps_of;
use std::path::Path;

/// The newest checkpoint that is whole, and why newer ones are not.
#[derive(Debug, Default)]
pub struct Search {
    /// The newest whole one.
    pub found: Option<Checkpoint>,
    /// The faults of those that are newer, newest first.
    pub refused: Vec<Error>,
}

impl Search {
    /// The step of the one that was found; 0 when none was.
    pub fn step(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.state().step)
    }

    /// The one that was found, where none was refused.
    pub fn newest(&self) -> Option<&Checkpoint> {
        self.found.as_ref().filter(|_| self.refused.is_empty())
    }
}

/// Looks for the newest whole checkpoint of a run.
pub fn newest_whole(root: &Path) -> Search {
    newest(root, |_| Ok(()))
}

/// [`newest_whole`] among those whose journal has all the lines that it had when they were written.
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
        let opened = Checkpoint::open(steps_of(root).join(name(step)));
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
