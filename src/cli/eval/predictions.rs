//! `eval --predictions`: writes the prediction for each example to a file.

use super::output;
use crate::data::Source;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::predicted;
use crate::files;
use std::path::{Path, PathBuf};

/// Checks that predictions may be written to the path.
///
/// # Errors
/// If it is standard output, which the scores go to, or a file of `--data`; if its folder does not exist.
pub(super) fn require(path: &Path, data: &[PathBuf]) -> Result<()> {
    if path == Path::new("-") {
        return Err(Error::usage(
            "--predictions -: the scores go to standard output; give a file, or /dev/stdout for both",
        ));
    }
    for data in data {
        files::require_distinct(("--predictions", path), ("--data", data))?;
    }
    files::require_folder_of(path)
}

/// Writes the lines of generated texts (`written`), or of the prediction for each example.
///
/// # Errors
/// If the run predicts nothing for an example, or writing fails.
pub(super) fn write(
    path: &Path,
    written: Option<String>,
    opened: &OpenedRun,
    source: &dyn Source,
    batch_size: usize,
) -> Result<()> {
    let lines = match written {
        Some(lines) => lines,
        None => predicted::lines(opened, source, batch_size)?,
    };
    files::write_result(path, lines.as_bytes())
}

/// Notes tagged words that the model does not read and that are not scored.
pub(super) fn note_unread(opened: &OpenedRun, source: &dyn Source) {
    let sentences = (0..source.len() as u64).map_while(|sample| source.tagged_words(sample));
    let (mut all, mut unread) = (0, 0);
    for sentence in sentences {
        all += sentence.words.len();
        unread += sentence.read.iter().filter(|read| !**read).count();
    }
    if unread > 0 {
        output::note(format!(
            "{unread} of {all} words are neither read nor scored: they are beyond the {} tokens of a text ([data] context), or \
             the tokenizer produces no tokens from them",
            opened.experiment.data.context()
        ));
    }
}
