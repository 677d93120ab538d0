//! What a folder is that a command takes for a run's.

use super::{RESOLVED, is_run};
use crate::error::{Error, Result, shell_word};
use crate::files;
use std::path::Path;

/// The plan in the folder of a sweep, which has its runs in folders of their own.
const PLAN: &str = "sweep.json";

/// An error when a folder holds no run, for commands that read one.
///
/// # Errors
/// With what is there instead.
pub fn require_run(root: &Path) -> Result<()> {
    if is_run(root) {
        return files::require_ordinary_in(root);
    }
    let shown = root.display();
    Err(Error::usage(if root.join(PLAN).is_file() {
        format!(
            "{shown} is a sweep, not a run: name one of its runs, as {shown}/cells/ARM/seed-SEED; the whole sweep continues with: \
             formwork sweep {}",
            shell_word(root)
        )
    } else if root.join("config.json").is_file() {
        format!(
            "{shown} is not a run folder: it has no {RESOLVED}; a folder of Hugging Face becomes one with: formwork import {} RUN",
            shell_word(root)
        )
    } else if root.is_dir() {
        format!("{shown} is not a run folder: it has no {RESOLVED}")
    } else if root.is_file() {
        format!("{shown} is a file, not a run folder")
    } else {
        format!("there is no run folder {shown}")
    }))
}
