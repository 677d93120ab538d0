//! `metrics.jsonl`: one JSON object a line, appended and flushed.
//!
//! A checkpoint notes how long the journal was when it was written. A resumed run cuts what an
//! interrupted one wrote after that, and so writes the lines of a run that was never interrupted.
//! The last line may be torn when a process died; readers skip it.

use super::links;
use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file of JSON lines that only grows.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Journal {
    /// Opens the file, creates it when it is not there, and cuts it to `len` bytes.
    ///
    /// # Errors
    /// When the file is shorter than `len` (lines of the past are lost) or cannot be written.
    pub fn open(path: impl AsRef<Path>, len: u64) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let mut file = links::open_own(&path)?;
        let found = file.metadata().map_err(Error::io("read", &path))?.len();
        require(&path, found, len)?;
        file.set_len(len).map_err(Error::io("truncate", &path))?;
        file.seek(SeekFrom::Start(len))
            .map_err(Error::io("write", &path))?;
        Ok(Self { path, file, len })
    }

    /// Appends one object as a line, in one write.
    ///
    /// # Errors
    /// When it cannot be written; what was written of the line is cut off again.
    pub fn append(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|e| {
            Error::run(format!(
                "cannot write a line of {}: {e}",
                self.path.display()
            ))
        })?;
        text.push(b'\n');
        if let Err(e) = self.file.write_all(&text) {
            // The line's beginning may be in the file; the error matters more than a failure to cut it.
            let _ = self.file.set_len(self.len);
            let _ = self.file.seek(SeekFrom::Start(self.len));
            return Err(Error::io("write", &self.path)(e));
        }
        self.len += text.len() as u64;
        Ok(())
    }

    /// Brings the lines to the disk; the length in bytes, for the checkpoint's state.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn commit(&mut self) -> Result<u64> {
        self.file
            .sync_data()
            .map_err(Error::io("write", &self.path))?;
        Ok(self.len)
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An error when a journal has `found` bytes, and had more when a checkpoint was written: lines of the past are lost.
fn require(path: &Path, found: u64, len: u64) -> Result<()> {
    match found < len {
        false => Ok(()),
        true => Err(Error::run(format!(
            "{} has {found} bytes, but the checkpoint was written when it had {len}; its lines are lost",
            path.display()
        ))),
    }
}

/// An error when the file has not the `len` bytes that a checkpoint was written with; a file that is not there has none.
///
/// # Errors
/// Such a file, or one that cannot be looked at.
pub fn require_lines(path: &Path, len: u64) -> Result<()> {
    let found = match std::fs::metadata(path) {
        Ok(about) => about.len(),
        Err(e) if e.kind() == ErrorKind::NotFound => 0,
        Err(e) => return Err(Error::io("read", path)(e)),
    };
    require(path, found, len)
}

/// One line as it was written: what it says of one split at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Optimizer steps done.
    pub step: u64,
    /// `train`, `valid` or `test`.
    pub split: String,
    /// Mean over scored items in nats; NaN where it was not finite.
    pub loss: Option<f64>,
    /// Every other number by its name.
    pub numbers: BTreeMap<String, f64>,
}

/// Fields that depend on the clock or the machine, not on the run: two equal runs differ in them.
pub const TIMING: &[&str] = &["items_per_s", "elapsed_s", "memory_mb"];

impl Line {
    /// The line without what depends on the clock or the machine.
    pub fn timeless(mut self) -> Self {
        self.numbers
            .retain(|name, _| !TIMING.contains(&name.as_str()));
        self
    }

    fn parse(text: &str) -> Option<Self> {
        let object: Map<String, Value> = serde_json::from_str(text).ok()?;
        let number = |value: &Value| match value {
            Value::Null => Some(f64::NAN),
            other => other.as_f64(),
        };
        let mut line = Self {
            step: object.get("step")?.as_u64()?,
            split: object.get("split")?.as_str()?.to_string(),
            loss: object.get("loss").and_then(number),
            numbers: BTreeMap::new(),
        };
        for (name, value) in &object {
            if let (false, Some(value)) = (matches!(&name[..], "step" | "loss"), number(value)) {
                line.numbers.insert(name.clone(), value);
            }
        }
        Some(line)
    }
}

/// The lines of a journal. A torn last line is left out.
///
/// # Errors
/// When the file cannot be read, and with its number for a line in the middle that is not an object with
/// `step` and `split`.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Line>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = Vec::new();
    for (i, raw) in text.split_inclusive('\n').enumerate() {
        match Line::parse(raw) {
            Some(line) => lines.push(line),
            None if raw.trim().is_empty() || !raw.ends_with('\n') => {}
            None => {
                return Err(Error::run(format!(
                    "{}:{}: not a line of a journal: it has no `step` and `split`",
                    path.display(),
                    i + 1
                )));
            }
        }
    }
    Ok(lines)
}
