//! Opens a run for a command, with a note if the checkpoint used is not the newest.

use super::output;
use crate::error::Result;
use crate::experiment::open::{self, OpenedRun};
use crate::experiment::run_contents::CheckpointChoice;
use std::path::Path;

/// As [`open::open`]; if the run has a newer checkpoint than the best one, a note says so.
///
/// # Errors
/// As [`open::open`].
pub(super) fn open(run: &Path, which: CheckpointChoice, device: Option<&str>) -> Result<OpenedRun> {
    Ok(with_checkpoint_note(
        run,
        which,
        open::open(run, which, device)?,
    ))
}

/// As [`open`], with tracked parameters for gradients.
///
/// # Errors
/// As [`open::open_tracked`].
pub(super) fn open_tracked(
    run: &Path,
    which: CheckpointChoice,
    device: Option<&str>,
) -> Result<OpenedRun> {
    Ok(with_checkpoint_note(
        run,
        which,
        open::open_tracked(run, which, device)?,
    ))
}

fn with_checkpoint_note(run: &Path, which: CheckpointChoice, opened: OpenedRun) -> OpenedRun {
    let note = open::older_checkpoint_note(run, which, opened.step);
    note.iter().for_each(output::note);
    opened
}
