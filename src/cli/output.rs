//! Writes to standard output and standard error.
//!
//! A result that cannot be written is an error of the command. If the reader of standard output goes away (`formwork … |
//! head`), the command ends quietly, like other commands in a pipe; see [`is_closed_pipe`]. If standard error is closed, the run
//! continues without messages, since these are not results.

use crate::error::{Error, Result};
pub use crate::experiment::encode::number;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const STDOUT: &str = "standard output";

/// Writes a line of a result to standard output.
///
/// # Errors
/// If it cannot be written.
pub fn line(text: impl AsRef<str>) -> Result<()> {
    write_stdout(text.as_ref(), "\n")
}

/// Writes part of a line of a result, flushed at once.
///
/// # Errors
/// If it cannot be written.
pub fn line_part(text: impl AsRef<str>) -> Result<()> {
    write_stdout(text.as_ref(), "")
}

/// Writes a line for the user to standard error.
pub fn note(text: impl AsRef<str>) {
    write_stderr(text.as_ref(), "\n");
}

/// Writes part of a line for the user, flushed at once.
pub fn note_part(text: impl AsRef<str>) {
    write_stderr(text.as_ref(), "");
}

/// Writes an error, each of its lines marked.
pub fn error(error: &Error) {
    for text in error.to_string().lines() {
        // A name from a file may contain control characters that a terminal would obey.
        let text = text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}");
        note(format!("error: {text}"));
    }
}

/// Whether the error is that the reader of standard output closed it.
pub fn is_closed_pipe(error: &Error) -> bool {
    matches!(error, Error::Io { path, source, .. }
        if path == Path::new(STDOUT) && source.kind() == ErrorKind::BrokenPipe)
}

/// Whether the error is that standard output cannot be written to.
pub fn is_output_error(error: &Error) -> bool {
    matches!(error, Error::Io { path, .. } if path == Path::new(STDOUT))
}

fn write_stdout(text: &str, end: &str) -> Result<()> {
    let mut stream = std::io::stdout().lock();
    write!(stream, "{text}{end}")
        .and_then(|()| stream.flush())
        .map_err(Error::io("write to", STDOUT))
}

fn write_stderr(text: &str, end: &str) {
    let mut stream = std::io::stderr().lock();
    // A message that cannot be written does not stop the work.
    let _ = write!(stream, "{text}{end}").and_then(|()| stream.flush());
}

/// Formats a count with its noun: `1 text`, `3 texts`.
pub fn count_of(number: usize, one: &str) -> String {
    let end = match number {
        1 => "",
        _ if one.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {one}{end}")
}

/// Returns the folder of `--out` if it exists or can be created.
///
/// # Errors
/// If it, or a part of its path, is a file.
pub fn output_folder(out: PathBuf) -> Result<PathBuf> {
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
        assert!(is_closed_pipe(&at(ErrorKind::BrokenPipe, STDOUT)));
        assert!(!is_closed_pipe(&at(ErrorKind::StorageFull, STDOUT)));
        assert!(!is_closed_pipe(&at(ErrorKind::BrokenPipe, "scores.json")));
    }
}
