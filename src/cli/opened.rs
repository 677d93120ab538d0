//! A run opened for a command, with a word about the checkpoint where it is not the newest.

use super::output;
use crate::error::Result;
use crate::experiment::open::{self, Opened};
use crate::experiment::saved::Which;
use std::path::Path;

/// [`open::open`]; the step of the best checkpoint is told where the run has a newer one.
///
/// # Errors
/// As [`open::open`].
pub(super) fn open(run: &Path, which: Which, device: Option<&str>) -> Result<Opened> {
    Ok(told(run, which, open::open(run, which, device)?))
}

/// [`open`] for gradients.
///
/// # Errors
/// As [`open::open_tracked`].
pub(super) fn open_tracked(run: &Path, which: Which, device: Option<&str>) -> Result<Opened> {
    Ok(told(run, which, open::open_tracked(run, which, device)?))
}

fn told(run: &Path, which: Which, opened: Opened) -> Opened {
    let note = open::not_newest(run, which, opened.step);
    note.iter().for_each(output::note);
    opened
}
