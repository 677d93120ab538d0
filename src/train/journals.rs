//! Everything that the step loop writes down on its way, in one hand: `metrics.jsonl`, `diagnostics.jsonl`, and the
//! copies of both that `[journal]` asks for.

use super::checkpoint::State;
use super::diagnostics::Diagnosis;
use super::exporters::{Exporters, JournalConfig};
use super::journal::{self, Journal};
use super::links::Home;
use super::run_dir::{self, RunDir};
use crate::error::Result;
use serde_json::Value;
use std::path::Path;

/// An error when a journal of the run has lost lines that it had at a checkpoint. One that is gone as a whole is missed where it
/// is opened, since it may have been switched off; `metrics.jsonl` never is.
///
/// # Errors
/// With the journal.
pub fn require_lines(root: &Path, state: &State) -> Result<()> {
    for (name, len) in [
        (run_dir::METRICS, state.journal_bytes),
        (run_dir::DIAGNOSTICS, state.diagnostics_bytes),
        (run_dir::SAMPLES, state.samples_bytes),
    ] {
        let path = root.join(name);
        if name == run_dir::METRICS || path.exists() {
            journal::require_lines(&path, len)?;
        }
    }
    Ok(())
}

/// The open journals of a run; those of a rank that writes nothing take every line and keep none.
pub struct Journals(Option<Open>);

struct Open {
    home: Home,
    metrics: Journal,
    /// Open when something is measured, and when an earlier process of the run has measured something: what it wrote
    /// after the checkpoint must go.
    diagnostics: Option<Journal>,
    exporters: Exporters,
}

impl Journals {
    /// Opens the journals of a run, cut to what they held at its checkpoint, and makes the copies anew.
    ///
    /// # Errors
    /// Files that are shorter than they were, or cannot be written.
    pub fn open(
        run: &RunDir,
        state: &State,
        diagnosed: bool,
        copies: JournalConfig,
    ) -> Result<Self> {
        let metrics = Journal::open(run.path(run_dir::METRICS), state.journal_bytes)?;
        let path = run.path(run_dir::DIAGNOSTICS);
        let diagnostics = (diagnosed || path.exists())
            .then(|| Journal::open(path, state.diagnostics_bytes))
            .transpose()?;
        Ok(Self(Some(Open {
            home: run.home().clone(),
            metrics,
            diagnostics,
            exporters: Exporters::open(run.root(), copies, state.elapsed_s)?,
        })))
    }

    /// Those of a rank that writes nothing.
    pub fn none() -> Self {
        Self(None)
    }

    /// Appends a line to `metrics.jsonl`.
    ///
    /// # Errors
    /// When the disk refuses, and when the run's folder is not where it was.
    pub fn append(&mut self, line: &Value) -> Result<()> {
        let Some(open) = &mut self.0 else {
            return Ok(());
        };
        open.home.require()?;
        open.metrics.append(line)?;
        open.exporters.follow(line)
    }

    /// Appends a line to `diagnostics.jsonl`.
    ///
    /// # Errors
    /// When the disk refuses, and when the run's folder is not where it was.
    pub fn diagnose(&mut self, diagnosis: &Diagnosis) -> Result<()> {
        let Some(open) = &mut self.0 else {
            return Ok(());
        };
        open.home.require()?;
        let line = diagnosis.line();
        if let Some(journal) = &mut open.diagnostics {
            journal.append(&line)?;
        }
        open.exporters.follow(&line)
    }

    /// Brings the lines to the disk, and their lengths into the state of a checkpoint.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn commit(&mut self, state: &mut State) -> Result<()> {
        let Some(open) = &mut self.0 else {
            return Ok(());
        };
        state.journal_bytes = open.metrics.commit()?;
        let diagnostics = open.diagnostics.as_mut().map(Journal::commit);
        state.diagnostics_bytes = diagnostics.transpose()?.unwrap_or(0);
        Ok(())
    }
}
