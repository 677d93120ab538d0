//! What a run says of each example, in a file beside the scores: `eval --predictions`.

use super::output;
use crate::data::Source;
use crate::error::{Error, Result};
use crate::experiment::open::Opened;
use crate::experiment::predicted;
use crate::files;
use std::path::{Path, PathBuf};

/// An error where nothing may be written at the path.
///
/// # Errors
/// Standard output, where the scores go; a file of `--data`; a folder that is not there.
pub(super) fn require(path: &Path, data: &[PathBuf]) -> Result<()> {
    if path == Path::new("-") {
        return Err(Error::usage(
            "--predictions -: the scores go to standard output; name a file, or /dev/stdout for both",
        ));
    }
    for data in data {
        files::require_other(("--predictions", path), ("--data", data))?;
    }
    files::require_folder_of(path)
}

/// Writes the lines, of texts that were `written` or of what the run says of each example.
///
/// # Errors
/// A run that says nothing of an example; the disk's.
pub(super) fn write(
    path: &Path,
    written: Option<String>,
    opened: &Opened,
    source: &dyn Source,
    batch_size: usize,
) -> Result<()> {
    let lines = match written {
        Some(lines) => lines,
        None => predicted::lines(opened, source, batch_size)?,
    };
    files::write_result(path, lines.as_bytes())
}

/// Tells of tagged words that the model does not read, and which no score counts.
pub(super) fn note_unread(opened: &Opened, source: &dyn Source) {
    let sentences = (0..source.len() as u64).map_while(|sample| source.tagged_words(sample));
    let (mut all, mut unread) = (0, 0);
    for sentence in sentences {
        all += sentence.words.len();
        unread += sentence.read.iter().filter(|read| !**read).count();
    }
    if unread > 0 {
        output::note(format!(
            "{unread} of {all} words are neither read nor scored: they lie beyond the {} tokens of a text ([data] context), or \
             the tokenizer leaves nothing of them",
            opened.experiment.data.context()
        ));
    }
}
