//! Copies of a run's journals in formats that other programs read: a CSV file, a TensorBoard event file.
//!
//! A copy depends only on the journals. When a run is resumed, the journals are cut to its checkpoint and the copies
//! are recreated from the rest; so a copy never shows a step twice, and a copy that is enabled late covers the whole run.

mod csv;
pub mod events;

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// `[journal]`: which copies of its journals a run keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JournalConfig {
    /// Whether to write an event file in the run folder, for `tensorboard --logdir`.
    pub tensorboard: bool,
    /// Whether to write `metrics.csv`: step, split, metric and value per row.
    pub csv: bool,
}

/// The numbers of one line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Optimizer steps done.
    pub step: u64,
    /// `train`, `valid` or `test`; `None` for diagnostics.
    pub split: Option<String>,
    /// Seconds of training until then, if the line has them.
    pub elapsed_s: Option<f64>,
    /// Numbers by name; NaN if one was not finite.
    pub values: Vec<(String, f64)>,
}

impl Entry {
    /// Parses a line of `metrics.jsonl`, or of `diagnostics.jsonl`, whose objects become `norm/part`.
    ///
    /// Lines are parsed from text even if they were just written, so that a recreated copy has exactly the same numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let object: Map<String, Value> = serde_json::from_str(text).ok()?;
        let mut values = Vec::new();
        for (name, value) in &object {
            match value {
                _ if name == "step" => {}
                Value::Object(parts) => values.extend(
                    parts
                        .iter()
                        .filter_map(|(part, x)| Some((format!("{name}/{part}"), number(x)?))),
                ),
                other => values.extend(number(other).map(|x| (name.clone(), x))),
            }
        }
        Some(Self {
            step: object.get("step")?.as_u64()?,
            split: object.get("split").and_then(|s| Some(s.as_str()?.into())),
            elapsed_s: object.get("elapsed_s").and_then(Value::as_f64),
            values,
        })
    }
}

/// Reads a number of a journal, in which `null` stands for one that is not finite.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Null => Some(f64::NAN),
        other => other.as_f64(),
    }
}

/// A file that receives every entry of the journals.
trait Exporter: Send {
    /// Takes an entry, which may be buffered.
    fn write(&mut self, entry: &Entry) -> Result<()>;
    /// Writes buffered entries to the file.
    fn flush(&mut self) -> Result<()>;
}

/// All copies that a run keeps.
pub struct Exporters(Vec<Box<dyn Exporter>>);

impl Exporters {
    /// Creates the copies in the run folder `root` from its journals; `elapsed_s` is the seconds of training so far.
    ///
    /// # Errors
    /// If journals cannot be read or copies cannot be written.
    pub fn open(root: &Path, config: JournalConfig, elapsed_s: f64) -> Result<Self> {
        let mut all: Vec<Box<dyn Exporter>> = Vec::new();
        if config.csv {
            all.push(Box::new(csv::Table::create(root)?));
        }
        if config.tensorboard {
            all.push(Box::new(events::EventFile::create(root, elapsed_s)?));
        }
        let mut exporters = Self(all);
        if !exporters.0.is_empty() {
            exporters.replay(root)?;
        }
        Ok(exporters)
    }

    /// Exports a line that was just written.
    ///
    /// # Errors
    /// If copies cannot be written.
    pub fn export_line(&mut self, line: &Value) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let entry = Entry::parse(&line.to_string());
        for exporter in &mut self.0 {
            if let Some(entry) = &entry {
                exporter.write(entry)?;
            }
            exporter.flush()?;
        }
        Ok(())
    }

    /// Exports the existing lines of the journals, in the order in which they were written: a step's diagnostics come
    /// before its metrics.
    fn replay(&mut self, root: &Path) -> Result<()> {
        let mut diagnostics = entries(&root.join(super::run_dir::DIAGNOSTICS))?.peekable();
        for entry in entries(&root.join(super::run_dir::METRICS))? {
            let entry = entry?;
            while let Some(earlier) = diagnostics
                .next_if(|next| next.as_ref().map_or(true, |next| next.step <= entry.step))
            {
                self.write(&earlier?)?;
            }
            self.write(&entry)?;
        }
        for entry in diagnostics {
            self.write(&entry?)?;
        }
        self.0.iter_mut().try_for_each(|exporter| exporter.flush())
    }

    fn write(&mut self, entry: &Entry) -> Result<()> {
        self.0
            .iter_mut()
            .try_for_each(|exporter| exporter.write(entry))
    }
}

/// Reads the entries of a journal; none if there is no such file.
fn entries(path: &Path) -> Result<Box<dyn Iterator<Item = Result<Entry>>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Box::new(std::iter::empty())),
        Err(e) => return Err(Error::io("read", path)(e)),
    };
    let path = path.to_path_buf();
    let lines = BufReader::new(file).lines().filter_map(move |line| {
        let line = line.map_err(Error::io("read", &path));
        line.map(|line| Entry::parse(&line)).transpose()
    });
    Ok(Box::new(lines))
}
