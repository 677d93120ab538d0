//! Everything that the step loop logs, in one place: `metrics.jsonl`, `diagnostics.jsonl`, and the copies of both that
//! `[journal]` asks for.

use super::checkpoint::State;
use super::diagnostics::Diagnosis;
use super::exporters::{Exporters, JournalConfig};
use super::journal::{self, Journal};
use super::run_dir::{self, RunDir};
use super::symlinks::FolderGuard;
use crate::error::Result;
use serde_json::Value;
use std::path::Path;

/// Checks that no journal of the run has lost lines that it had at a checkpoint. A journal whose file is missing is not
/// an error here but when it is opened, since it may have been switched off; `metrics.jsonl` is always required.
///
/// # Errors
/// If lines are lost; the message names the journal.
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

/// The open journals of a run; on a rank that writes nothing, lines are dropped.
pub struct Journals(Option<OpenJournals>);

struct OpenJournals {
    home: FolderGuard,
    metrics: Journal,
    /// Open if something is measured, or if an earlier process of the run measured something: lines that it wrote after
    /// the checkpoint must be cut off.
    diagnostics: Option<Journal>,
    exporters: Exporters,
}

impl Journals {
    /// Opens the journals of a run, cut to their length at its checkpoint, and recreates the copies.
    ///
    /// # Errors
    /// If files are shorter than they were, or cannot be written.
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
        Ok(Self(Some(OpenJournals {
            home: run.guard().clone(),
            metrics,
            diagnostics,
            exporters: Exporters::open(run.root(), copies, state.elapsed_s)?,
        })))
    }

    /// Returns the journals of a rank that writes nothing.
    pub fn none() -> Self {
        Self(None)
    }

    /// Appends a line to `metrics.jsonl`.
    ///
    /// # Errors
    /// If the disk cannot be written, or the run's folder is not where it was.
    pub fn append(&mut self, line: &Value) -> Result<()> {
        let Some(open) = &mut self.0 else {
            return Ok(());
        };
        open.home.require_in_place()?;
        open.metrics.append(line)?;
        open.exporters.export_line(line)
    }

    /// Appends a line to `diagnostics.jsonl`.
    ///
    /// # Errors
    /// If the disk cannot be written, or the run's folder is not where it was.
    pub fn diagnose(&mut self, diagnosis: &Diagnosis) -> Result<()> {
        let Some(open) = &mut self.0 else {
            return Ok(());
        };
        open.home.require_in_place()?;
        let line = diagnosis.line();
        if let Some(journal) = &mut open.diagnostics {
            journal.append(&line)?;
        }
        open.exporters.export_line(&line)
    }

    /// Flushes the lines to the disk, and records their lengths in the state of a checkpoint.
    ///
    /// # Errors
    /// If the disk cannot be written.
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
