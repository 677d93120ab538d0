//! Writing to standard output and standard error.
//!
//! A result that cannot be written is an error of the command. A reader of standard output that went away
//! (`formwork … | head`) ends the command quietly, as it does other commands in a pipe; see [`reader_left`].
//! A closed standard error ends nothing: messages there are no results, and the run continues without them.

use crate::error::{Error, Result};
pub use crate::experiment::encode::number;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const STDOUT: &str = "standard output";

/// A line of a result, on standard output.
///
/// # Errors
/// It cannot be written.
pub fn line(text: impl AsRef<str>) -> Result<()> {
    result(text.as_ref(), "\n")
}

/// Part of a line of a result, shown at once.
///
/// # Errors
/// It cannot be written.
pub fn part(text: impl AsRef<str>) -> Result<()> {
    result(text.as_ref(), "")
}

/// A line for the person, on standard error.
pub fn note(text: impl AsRef<str>) {
    said(text.as_ref(), "\n");
}

/// Part of a line for the person, shown at once.
pub fn note_part(text: impl AsRef<str>) {
    said(text.as_ref(), "");
}

/// An error, each of its lines marked.
pub fn error(error: &Error) {
    for text in error.to_string().lines() {
        // A name from a file may have characters that a terminal obeys.
        let text = text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}");
        note(format!("error: {text}"));
    }
}

/// Whether the error is that the reader of standard output has read enough.
pub fn reader_left(error: &Error) -> bool {
    matches!(error, Error::Io { path, source, .. }
        if path == Path::new(STDOUT) && source.kind() == ErrorKind::BrokenPipe)
}

/// Whether the error is that standard output cannot be written to.
pub fn is_of_output(error: &Error) -> bool {
    matches!(error, Error::Io { path, .. } if path == Path::new(STDOUT))
}

fn result(text: &str, end: &str) -> Result<()> {
    let mut stream = std::io::stdout().lock();
    write!(stream, "{text}{end}")
        .and_then(|()| stream.flush())
        .map_err(Error::io("write to", STDOUT))
}

fn said(text: &str, end: &str) {
    let mut stream = std::io::stderr().lock();
    // A message that cannot be written does not end the work.
    let _ = write!(stream, "{text}{end}").and_then(|()| stream.flush());
}

/// A number of things in words: `1 text`, `3 texts`.
pub fn many(number: usize, one: &str) -> String {
    let end = match number {
        1 => "",
        _ if one.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {one}{end}")
}

/// The folder of `--out`, which may be there or be made.
///
/// # Errors
/// When it, or a part of its path, is a file.
pub fn folder(out: PathBuf) -> Result<PathBuf> {
    let taken = |path: &Path| path.exists() && !path.is_dir();
    match out.ancestors().find(|path| taken(path)) {
        Some(file) => Err(Error::usage(format!(
            "--out: {} is a file, not a folder",
            file.display()
        ))),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_standard_output_is_a_reader_that_left() {
        let at = |kind: ErrorKind, path: &str| Error::io("write to", path)(kind.into());
        assert!(reader_left(&at(ErrorKind::BrokenPipe, STDOUT)));
        assert!(!reader_left(&at(ErrorKind::StorageFull, STDOUT)));
        assert!(!reader_left(&at(ErrorKind::BrokenPipe, "scores.json")));
    }
}
