//! Writing to standard output and standard error.

use crate::error::Error;
use std::io::{ErrorKind, Write};

/// A line of a result, on standard output. A reader that went away ends the process quietly, as it does
/// for other commands in a pipe.
pub fn line(text: impl AsRef<str>) {
    text_to(&mut std::io::stdout(), text.as_ref(), true);
}

/// Part of a line of a result, shown at once.
pub fn part(text: impl AsRef<str>) {
    text_to(&mut std::io::stdout(), text.as_ref(), false);
}

/// A line for the person, on standard error.
pub fn note(text: impl AsRef<str>) {
    text_to(&mut std::io::stderr(), text.as_ref(), true);
}

/// An error, each of its lines marked.
pub fn error(error: &Error) {
    for text in error.to_string().lines() {
        note(format!("error: {text}"));
    }
}

fn text_to(stream: &mut dyn Write, text: &str, newline: bool) {
    let end = if newline { "\n" } else { "" };
    let result = write!(stream, "{text}{end}").and_then(|()| stream.flush());
    if result.is_err_and(|e| e.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
}
