//! Several inputs of one command: it reports those that fail, and continues.

use super::output;
use crate::data::files::found;
use crate::data::images::is_image;
use crate::error::{Error, Result};
use crate::files;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The files, with the pictures of folders, at any depth and in the order of their paths, in the folders' place.
///
/// # Errors
/// A folder that cannot be read or holds no picture.
pub(super) fn pictures(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let before = all.len();
        let inside = found::below(path).map_err(Error::before_running)?;
        all.extend(inside.into_iter().filter(|file| is_image(file)));
        if all.len() == before {
            return Err(Error::usage(format!(
                "{} holds no PNG or JPEG, nor does any folder in it",
                path.display()
            )));
        }
    }
    Ok(all)
}

/// The lines of a file, or of standard input where it is `-`, each with its place, `FILE:LINE`. A line that is not UTF-8 is an error
/// of its own.
///
/// # Errors
/// A file that cannot be read or is empty.
pub(super) fn lines(path: &Path) -> Result<Vec<(String, Result<String>)>> {
    let (stream, name): (Box<dyn Read>, String) = match path == Path::new("-") {
        true => (Box::new(std::io::stdin()), "standard input".into()),
        false => {
            files::require_ordinary(path)?;
            let file = std::fs::File::open(path).map_err(Error::io("read", path));
            (
                Box::new(file.map_err(Error::before_running)?),
                path.display().to_string(),
            )
        }
    };
    let mut all = Vec::new();
    for (number, line) in BufReader::new(stream).split(b'\n').enumerate() {
        let mut line = line
            .map_err(Error::io("read", path))
            .map_err(Error::before_running)?;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let text = String::from_utf8(line);
        let text = text.map_err(|_| Error::usage("the line is not UTF-8; convert it"));
        all.push((format!("{name}:{}", number + 1), text));
    }
    match all.is_empty() {
        true => Err(Error::usage(format!("{name} has no line"))),
        false => Ok(all),
    }
}

/// Counts the inputs of a command, and reports those that fail where there are several.
pub(super) struct Processed {
    alone: bool,
    all: usize,
    bad: usize,
}

impl Processed {
    /// Of so many inputs.
    pub(super) fn of(count: usize) -> Self {
        Self {
            alone: count == 1,
            all: 0,
            bad: 0,
        }
    }

    /// Counts an input. The error of one of several is reported, with its place before it.
    ///
    /// # Errors
    /// The error of an input that is alone; standard output that cannot be written to.
    pub(super) fn one(&mut self, result: Result<()>, place: &str) -> Result<()> {
        self.all += 1;
        match result {
            Err(error) if !self.alone && !output::is_of_output(&error) => {
                self.bad += 1;
                let place = if place.is_empty() {
                    String::new()
                } else {
                    format!("{place}: ")
                };
                output::note(format!("error: {place}{error}"));
                Ok(())
            }
            result => result,
        }
    }

    /// The inputs so far.
    pub(super) fn count(&self) -> usize {
        self.all
    }

    /// An error where some inputs failed; `what` they are.
    ///
    /// # Errors
    /// Some failed.
    pub(super) fn end(self, what: &str) -> Result<()> {
        match self.bad {
            0 => Ok(()),
            bad => Err(Error::run(format!(
                "{bad} of {} {what} could not be read",
                self.all
            ))),
        }
    }
}
