//! `metrics.jsonl`: one JSON object per line, appended and flushed.
//!
//! A checkpoint records the journal's length at the time it was written. A resumed run cuts off the lines that an
//! interrupted run wrote after that, and so writes the same lines as a run that was never interrupted.
//! The last line may be torn if a process died; readers skip it.

use super::symlinks;
use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An append-only file of JSON lines.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Journal {
    /// Opens the file, creating it if it does not exist, and cuts it to `len` bytes.
    ///
    /// # Errors
    /// If the file is shorter than `len` (earlier lines are lost) or cannot be written.
    pub fn open(path: impl AsRef<Path>, len: u64) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let mut file = symlinks::open_refusing_symlink(&path)?;
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
    /// If it cannot be written; a partly written line is cut off again.
    pub fn append(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|e| {
            Error::run(format!(
                "cannot write a line to {}: {e}",
                self.path.display()
            ))
        })?;
        text.push(b'\n');
        if let Err(e) = self.file.write_all(&text) {
            // The beginning of the line may be in the file; this error matters more than a failure to cut it.
            let _ = self.file.set_len(self.len);
            let _ = self.file.seek(SeekFrom::Start(self.len));
            return Err(Error::io("write", &self.path)(e));
        }
        self.len += text.len() as u64;
        Ok(())
    }

    /// Flushes the lines to the disk and returns the length in bytes, for the checkpoint's state.
    ///
    /// # Errors
    /// If the disk cannot be written.
    pub fn commit(&mut self) -> Result<u64> {
        self.file
            .sync_data()
            .map_err(Error::io("write", &self.path))?;
        Ok(self.len)
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Fails if a journal has `found` bytes but had more (`len`) when a checkpoint was written: earlier lines are lost.
fn require(path: &Path, found: u64, len: u64) -> Result<()> {
    match found < len {
        false => Ok(()),
        true => Err(Error::run(format!(
            "{} has {found} bytes, but it had {len} when the checkpoint was written; lines are missing",
            path.display()
        ))),
    }
}

/// Checks that the file has at least the `len` bytes that it had when a checkpoint was written; a missing file has none.
///
/// # Errors
/// If the file is shorter or its size cannot be read.
pub fn require_lines(path: &Path, len: u64) -> Result<()> {
    let found = match std::fs::metadata(path) {
        Ok(about) => about.len(),
        Err(e) if e.kind() == ErrorKind::NotFound => 0,
        Err(e) => return Err(Error::io("read", path)(e)),
    };
    require(path, found, len)
}

/// One parsed line of the journal: the numbers of one split at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Optimizer steps done.
    pub step: u64,
    /// `train`, `valid` or `test`.
    pub split: String,
    /// Mean loss over scored items in nats; NaN if it was not finite.
    pub loss: Option<f64>,
    /// All other numbers by name.
    pub numbers: BTreeMap<String, f64>,
}

/// Fields that depend on the clock or the machine instead of the run: two equal runs differ in them.
pub const TIMING: &[&str] = &["items_per_s", "elapsed_s", "memory_mb"];

impl Line {
    /// Removes the fields that depend on the clock or the machine.
    pub fn without_timing(mut self) -> Self {
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

/// Reads the lines of a journal. A torn last line is skipped.
///
/// # Errors
/// If the file cannot be read, or a line in the middle is not an object with `step` and `split`; the message has the
/// line's number.
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
