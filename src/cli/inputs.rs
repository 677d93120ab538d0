//! Several inputs of one command: those that can be read are told, the others are named.

use super::output;
use crate::data::images::is_image;
use crate::error::{Error, Result};
use crate::files;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The files, with the pictures of folders by their names in the folders' place.
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
        let entries = std::fs::read_dir(path).map_err(Error::io("read", path));
        let entries = entries.map_err(Error::before_running)?.flatten();
        let inside = entries.map(|entry| entry.path());
        let mut inside: Vec<PathBuf> = inside.filter(|file| is_image(file)).collect();
        if inside.is_empty() {
            return Err(Error::usage(format!(
                "{} holds no PNG or JPEG",
                path.display()
            )));
        }
        inside.sort();
        all.extend(inside);
    }
    Ok(all)
}

/// The lines of a file, or of standard input where it is `-`.
///
/// # Errors
/// A file that cannot be read; of a line, one that cannot be read or is not UTF-8.
pub(super) fn lines(path: &Path) -> Result<impl Iterator<Item = Result<String>> + use<>> {
    let stream: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => {
            files::require_ordinary(path)?;
            let file = std::fs::File::open(path).map_err(Error::io("read", path));
            Box::new(file.map_err(Error::before_running)?)
        }
    };
    let name = path.to_path_buf();
    Ok(BufReader::new(stream)
        .lines()
        .map(move |line| line.map_err(Error::io("read", &name))))
}

/// How many of several inputs could not be told.
pub(super) struct Told {
    alone: bool,
    all: usize,
    bad: usize,
}

impl Told {
    /// Of so many inputs.
    pub(super) fn of(count: usize) -> Self {
        Self {
            alone: count == 1,
            all: 0,
            bad: 0,
        }
    }

    /// Notes the result of one: where it is one of several its error is said, behind what `place` gives.
    ///
    /// # Errors
    /// The error of an input that is alone.
    pub(super) fn one(&mut self, result: Result<()>, place: impl Fn() -> String) -> Result<()> {
        self.all += 1;
        match result {
            Err(error) if !self.alone => {
                self.bad += 1;
                output::note(format!("error: {}{error}", place()));
                Ok(())
            }
            result => result,
        }
    }

    /// An error where some could not be told.
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
