//! Opens a run for a command, with a note if the checkpoint used is not the newest.

use super::output;
use crate::error::Result;
use crate::experiment::open::{self, Opened};
use crate::experiment::saved::Which;
use std::path::Path;

/// As [`open::open`]; if the run has a newer checkpoint than the best one, a note says so.
///
/// # Errors
/// As [`open::open`].
pub(super) fn open(run: &Path, which: Which, device: Option<&str>) -> Result<Opened> {
    Ok(told(run, which, open::open(run, which, device)?))
}

/// As [`open`], with tracked parameters for gradients.
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
