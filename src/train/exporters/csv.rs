//! `metrics.csv`: the content of the journals, one number per row: `step,split,metric,value`.
//!
//! Diagnostics are measured in training and have the split `train`, with names like `gradient_norm/blocks.0`. `NaN` is
//! a number that was not finite.

use super::{Entry, Exporter};
use crate::error::{Error, Result};
use crate::train::{run_dir, symlinks};
use csv::Writer;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The open file.
pub(super) struct Table {
    path: PathBuf,
    rows: Writer<File>,
}

impl Table {
    /// Creates an empty table in a run folder, replacing an existing one.
    pub(super) fn create(root: &Path) -> Result<Self> {
        let path = root.join(run_dir::CSV);
        let file = symlinks::open_refusing_symlink(&path)?;
        file.set_len(0).map_err(Error::io("truncate", &path))?;
        let mut table = Self {
            path,
            rows: Writer::from_writer(file),
        };
        table.row(["step", "split", "metric", "value"])?;
        Ok(table)
    }

    fn row(&mut self, row: [&str; 4]) -> Result<()> {
        let written = self.rows.write_record(row);
        written.map_err(|e| Error::run(format!("cannot write {}: {e}", self.path.display())))
    }
}

impl Exporter for Table {
    fn write(&mut self, entry: &Entry) -> Result<()> {
        let step = entry.step.to_string();
        let split = entry.split.as_deref().unwrap_or("train");
        entry
            .values
            .iter()
            .try_for_each(|(metric, value)| self.row([&step, split, metric, &value.to_string()]))
    }

    fn flush(&mut self) -> Result<()> {
        self.rows.flush().map_err(Error::io("write", &self.path))
    }
}
