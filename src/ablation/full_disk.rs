//! Failures because the disk is full or the user's quota is used up. Every other cell of the sweep would fail in the
//! same way, and none would fail once there is room.

use crate::error::{Error, shell_word};
use crate::files::PartialFile;
use crate::report::read::sweep::{PlannedArm, SweepFolder};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Bytes to write when probing for room: more than a block, far less than a checkpoint.
const PROBE: usize = 1 << 16;

fn is_disk_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Returns whether a message names a full disk or a used-up quota: `No space left on device (os error 28)`.
pub fn mentions_full_disk(text: &str) -> bool {
    let numbers = text.split("(os error ").skip(1);
    let numbers = numbers.filter_map(|rest| rest.split_once(')')?.0.parse().ok());
    numbers
        .map(|number| io::Error::from_raw_os_error(number).kind())
        .any(is_disk_full)
}

/// Returns whether the disk of a folder is full; a process whose log is on that disk cannot report it.
pub fn is_full(folder: &Path) -> bool {
    let probe = || -> io::Result<()> {
        let mut file = PartialFile::beside(&folder.join("room"))?;
        file.write_all(&[0; PROBE])?;
        file.sync()
    };
    probe().is_err_and(|error| is_disk_full(error.kind()))
}

/// Returns the error that ends a sweep on a full disk. `told` is the message that reported it, after the cell's name if
/// it came from a cell's process.
pub fn full_disk_error(sweep: &SweepFolder, told: &str) -> Error {
    let is_open = |(arm, seed): &(&PlannedArm, u64)| !sweep.ending_file(arm, *seed).exists();
    let (left, all) = (sweep.cells().filter(is_open).count(), sweep.cells().count());
    Error::run(format!(
        "the disk is full, so the sweep has stopped: {told}; {left} of {all} cells are left; free some space, then continue \
         with: formwork sweep {}",
        shell_word(&sweep.path)
    ))
}
