//! Several inputs of one command: failures are reported, and the command continues with the other inputs.

use super::output;
use crate::data::files::discovery;
use crate::data::files::packed::Unpacked;
use crate::data::images::is_image;
use crate::error::{Error, Result};
use crate::files;
use crate::model::ModelConfig;
use std::io::{BufRead, BufReader, Split};
use std::path::{Path, PathBuf};

/// Replaces folders by the images in them, at any depth and ordered by path.
///
/// # Errors
/// If a folder cannot be read or holds no image.
pub(super) fn image_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let before = all.len();
        let inside = discovery::files_below(path).map_err(Error::into_usage_error)?;
        all.extend(inside.into_iter().filter(|file| is_image(file)));
        if all.len() == before {
            return Err(Error::usage(format!(
                "{} and its subfolders contain no PNG or JPEG file",
                path.display()
            )));
        }
    }
    Ok(all)
}

/// The file name that stands for standard input.
const STDIN: &str = "-";

/// The byte order mark that some programs write at the start of UTF-8 files.
const BYTE_ORDER: &[u8] = "\u{FEFF}".as_bytes();

/// The lines of a file, decompressed if necessary, or of standard input; read lazily.
pub(super) struct InputLines {
    stream: Split<Box<dyn BufRead>>,
    /// Path of the file; none for standard input.
    path: Option<PathBuf>,
    begun: bool,
}

impl InputLines {
    /// Opens a file, or standard input if `path` is `-`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (stream, path): (Box<dyn BufRead>, _) = match path == Path::new(STDIN) {
            true => (Box::new(BufReader::new(std::io::stdin())), None),
            false => {
                files::require_regular(path)?;
                let file = Unpacked::open(path).map_err(Error::into_usage_error)?;
                (Box::new(BufReader::new(file)), Some(path.to_path_buf()))
            }
        };
        Ok(Self {
            stream: stream.split(b'\n'),
            path,
            begun: false,
        })
    }

    /// The name of the file in messages.
    pub(super) fn name(&self) -> String {
        let name = self.path.as_ref().map(|path| path.display().to_string());
        name.unwrap_or_else(|| "standard input".into())
    }

    fn fault(&self, error: std::io::Error) -> Error {
        match &self.path {
            Some(path) => Unpacked::fault(path, error),
            None => Error::io("read", "standard input")(error),
        }
    }
}

impl Iterator for InputLines {
    /// A line without its line ending; the first one without a byte order mark.
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = match self.stream.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(self.fault(error))),
        };
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if !self.begun && line.starts_with(BYTE_ORDER) {
            line.drain(..BYTE_ORDER.len());
        }
        if !self.begun
            && let Err(wide) = files::refuse_utf16(self.name(), &line)
        {
            return Some(Err(wide));
        }
        self.begun = true;
        Some(Ok(line))
    }
}

/// Converts a line to text.
///
/// # Errors
/// If it is not UTF-8.
pub(super) fn to_text(line: Vec<u8>) -> Result<String> {
    String::from_utf8(line).map_err(|_| Error::usage("the line is not UTF-8; convert it"))
}

/// Reads the lines of a file, or of standard input if `path` is `-`, each with its location, `FILE:LINE`. A line that is not
/// UTF-8 is an error of its own.
///
/// # Errors
/// If the file cannot be read or is empty.
pub(super) fn lines(path: &Path) -> Result<Vec<(String, Result<String>)>> {
    let lines = InputLines::open(path)?;
    let name = lines.name();
    let mut all = Vec::new();
    for (line, number) in lines.zip(1..) {
        let line = line.map_err(Error::into_usage_error)?;
        all.push((format!("{name}:{number}"), to_text(line)));
    }
    match all.is_empty() {
        true => Err(Error::usage(format!("{name} contains no lines"))),
        false => Ok(all),
    }
}

/// Counts the inputs of a command and, if there are several, reports those that fail.
pub(super) struct InputCounter {
    is_single: bool,
    all: usize,
    bad: usize,
}

impl InputCounter {
    /// Starts counting; `count` is the number of inputs.
    pub(super) fn of(count: usize) -> Self {
        Self {
            is_single: count == 1,
            all: 0,
            bad: 0,
        }
    }

    /// Counts an input. If there are several, its error is reported, prefixed by its location.
    ///
    /// # Errors
    /// The error of a single input; if standard output cannot be written to.
    pub(super) fn record(&mut self, result: Result<()>, place: &str) -> Result<()> {
        self.all += 1;
        match result {
            Err(error) if !self.is_single && !output::is_output_error(&error) => {
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

    /// Number of inputs so far.
    pub(super) fn count(&self) -> usize {
        self.all
    }

    /// Returns an error if some inputs failed; `what` names the inputs.
    ///
    /// # Errors
    /// If some inputs failed.
    pub(super) fn finish(self, what: &str) -> Result<()> {
        match self.bad {
            0 => Ok(()),
            bad => Err(Error::run(format!(
                "{bad} of {} {what} could not be read",
                self.all
            ))),
        }
    }
}

/// Notes that a model which reads retrieved neighbours gets none here.
pub(super) fn note_missing_neighbours(model: &ModelConfig) {
    if model.retrieval().is_some() {
        output::note(
            "this command retrieves no neighbours of the texts; the model runs as with --without-retrieval",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_byte_order_stands_before_the_first_line_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.txt");
        let content = ["\u{FEFF}one\r\n\u{FEFF}two\n".as_bytes(), b"\xff\n"].concat();
        std::fs::write(&path, content).unwrap();
        let all = lines(&path).unwrap();
        let name = path.display();
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].0, format!("{name}:1"));
        assert_eq!(all[0].1.as_deref().unwrap(), "one");
        assert_eq!(all[1].1.as_deref().unwrap(), "\u{FEFF}two");
        assert!(all[2].1.is_err());
    }
}
