//! Finds the runs and sweeps below a folder and summarises each run: its settings and its state. Refreshing a run reads only
//! the lines added to its journal since the last look.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::journal_summary::{Best, JournalSummary};
use super::patience;
use super::resolved;
use super::sweep::{self, EndState, Ending, SweepFolder};
use super::tail::Tail;
use crate::error::{Error, Result};
use crate::files;
use crate::train::{checkpoint, run_dir};

/// Maximum depth of the search; a sweep's runs are three levels deep.
const DEEPEST: usize = 5;
/// Maximum size of a `resolved.toml` or a `scores.json` in bytes.
const MOST: u64 = 1 << 22;

/// State of an imported model.
pub const IMPORTED: &str = "imported";

/// The run and sweep folders below a folder.
#[derive(Clone, Debug, Default)]
pub struct FoundFolders {
    /// Run folders.
    pub runs: Vec<PathBuf>,
    /// Sweep folders.
    pub sweeps: Vec<PathBuf>,
}

/// Finds runs and sweeps below a folder; symbolic links are not followed.
pub fn find(folder: &Path) -> FoundFolders {
    let mut found = FoundFolders::default();
    search(folder, DEEPEST, &mut found);
    found
}

fn search(folder: &Path, deep: usize, found: &mut FoundFolders) {
    if run_dir::is_run(folder) {
        found.runs.push(folder.to_path_buf());
        return;
    }
    if SweepFolder::is_sweep(folder) {
        found.sweeps.push(folder.to_path_buf());
    }
    let Some(deep) = deep.checked_sub(1) else {
        return;
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // A symbolic link is not a directory here, so a link that leads back cannot cause a loop.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), deep, found);
        }
    }
}

/// Description of a run from its `resolved.toml`.
#[derive(Clone, Debug)]
pub struct RunHeading {
    /// `name` of the experiment, else the folder's name.
    pub name: String,
    /// `seed` of the experiment.
    pub seed: Option<String>,
    /// Kind of the task.
    pub task: Option<String>,
    /// Number of training steps in the experiment.
    pub steps: Option<u64>,
    /// Number of steps between evaluations.
    pub eval_every: Option<u64>,
    /// Metric that decides which checkpoint is the best.
    pub best_by: String,
    /// Number of evaluations without improvement after which the run stops early.
    pub patience: Option<u64>,
    /// Whether the run has no data, as an imported model.
    pub imported: bool,
}

impl RunHeading {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(run_dir::RESOLVED);
        let (text, _) = files::read_plain(&path, MOST).map_err(Error::io("read", &path))?;
        let table = resolved::parse(&path, &text)?;
        let train = |key: &str| table.get("train").and_then(|train| train.get(key));
        let count = |key: &str| train(key)?.as_integer()?.try_into().ok();
        let best_by = train("best_by")
            .and_then(|value| value.as_str())
            .unwrap_or("loss");
        let name = table.get("name").and_then(|name| name.as_str());
        let task = table
            .get("task")
            .and_then(|task| task.get("kind")?.as_str());
        let data = table
            .get("data")
            .and_then(|data| data.get("kind")?.as_str());
        Ok(Self {
            name: name.map_or_else(|| resolved::name_of(folder), str::to_string),
            seed: table.get("seed").map(ToString::to_string),
            task: task.map(str::to_string),
            steps: count("steps"),
            eval_every: count("eval_every"),
            best_by: best_by
                .strip_prefix("valid_")
                .unwrap_or(best_by)
                .to_string(),
            patience: count("patience"),
            imported: data == Some("none"),
        })
    }
}

/// Summary of a run.
#[derive(Clone, Debug)]
pub struct RunListing {
    /// Run folder.
    pub path: PathBuf,
    /// Description of the run, or the reason why it cannot be read.
    pub heading: std::result::Result<RunHeading, String>,
    /// Current state according to the journal.
    pub progress: JournalSummary,
    /// Whether a process is training in the folder.
    pub training: bool,
    /// Time of the last write to the journal.
    pub written: Option<SystemTime>,
    /// How the run ended, as recorded by its sweep.
    pub ending: Option<Ending>,
    /// Whether early stopping ended the run.
    stopped_early: bool,
    /// Whether the run ended after its last step but before saving it.
    unsaved: bool,
    tail: Tail,
    /// Length and modification time of `resolved.toml` at the last look.
    resolved_stamp: Option<(u64, SystemTime)>,
}

impl RunListing {
    /// Reads the run in a folder.
    pub fn read(path: PathBuf) -> Self {
        let mut run = Self {
            path,
            heading: Err("not read yet".into()),
            progress: JournalSummary::default(),
            training: false,
            written: None,
            ending: None,
            stopped_early: false,
            unsaved: false,
            tail: Tail::default(),
            resolved_stamp: None,
        };
        run.refresh();
        run
    }

    /// Refreshes the summary by reading only what changed since.
    pub fn refresh(&mut self) {
        let about = self.path.join(run_dir::RESOLVED).symlink_metadata();
        let seen = about
            .ok()
            .and_then(|about| Some((about.len(), about.modified().ok()?)));
        if seen.is_none() || seen != self.resolved_stamp {
            self.heading = RunHeading::read(&self.path).map_err(|e| e.to_string());
            self.resolved_stamp = seen;
        }
        let journal = self.path.join(run_dir::METRICS);
        if let Err(error) = self.tail.read(&journal, &mut self.progress) {
            self.heading = Err(Error::io("read", &journal)(error).to_string());
            self.resolved_stamp = None;
        }
        let about = journal
            .symlink_metadata()
            .and_then(|about| about.modified());
        self.written = about.ok();
        self.training = run_dir::is_busy(&self.path);
        self.ending = ending(&self.path);
        self.stopped_early = self.has_stopped_early();
        let of = self.heading.as_ref().ok().and_then(|heading| heading.steps);
        let last = of.filter(|of| self.ending.is_none() && self.progress.last_step >= *of);
        self.unsaved = last.is_some_and(|last| lacks_checkpoint(&self.path, last));
    }

    fn has_stopped_early(&self) -> bool {
        let Ok(heading) = &self.heading else {
            return false;
        };
        let last = self.progress.last_step;
        let short = heading.steps.is_some_and(|of| last < of);
        let ended = short && !self.training && has_scores(&self.path);
        let is_out = |patience| patience::is_used_up(&self.path, patience);
        ended && heading.patience.is_some_and(is_out)
    }

    /// Returns the run's state: `imported` (and never trained), `training`, `done`, `diverged`, `failed`, `stopped at a rung` (of
    /// successive halving), `stopped early`, `stopped` or `unreadable`.
    pub fn state(&self) -> &'static str {
        let Ok(heading) = &self.heading else {
            return "unreadable";
        };
        let ended = |state| self.ending.as_ref().is_some_and(|e| e.state == state);
        match () {
            () if self.training => "training",
            () if heading.imported && self.progress.last_step == 0 => IMPORTED,
            () if ended(EndState::Failed) => "failed",
            () if self.progress.divergence_step().is_some() || ended(EndState::Diverged) => {
                "diverged"
            }
            () if ended(EndState::Stopped) => "stopped at a rung",
            () if self.stopped_early => "stopped early",
            () if self.unsaved => "stopped",
            () if heading.steps.is_none_or(|of| self.progress.last_step >= of) => "done",
            () => "stopped",
        }
    }

    /// Returns the name and best validation value of the metric that decides the best checkpoint.
    pub fn score(&self) -> Option<(&str, Best)> {
        let metric = self.heading.as_ref().ok()?.best_by.as_str();
        Some((metric, self.progress.best(metric)?))
    }

    /// Returns the task's own metric: the one that decides the best checkpoint, or, if that is the loss, the first other metric
    /// that is not derived from the loss.
    pub fn own_metric(&self) -> Option<&str> {
        let decides = self.heading.as_ref().ok()?.best_by.as_str();
        match decides {
            "loss" => self.progress.own_metric(),
            other => Some(other),
        }
    }

    /// Returns the estimated seconds from the last journal line to the end of the run, while it trains.
    pub fn remaining_s(&self) -> Option<f64> {
        let heading = self.heading.as_ref().ok().filter(|_| self.training)?;
        self.progress
            .remaining_s(heading.steps?, heading.eval_every)
    }
}

/// Whether a run has a folder of checkpoints, but none of its last step.
fn lacks_checkpoint(run: &Path, last: u64) -> bool {
    let saved = checkpoint::steps(run);
    run_dir::checkpoints_folder(run).is_dir() && saved.last().is_none_or(|step| *step < last)
}

/// Reads how a cell ended from the ledger of the sweep around its folder.
fn ending(run: &Path) -> Option<Ending> {
    let (arm, seed) = (run.parent()?, run.file_name()?.to_str()?);
    let cells = arm.parent().filter(|cells| cells.ends_with(sweep::CELLS))?;
    let file = format!("{}.{seed}.end.json", arm.file_name()?.to_str()?);
    let path = cells.parent()?.join(sweep::LEDGER).join(file);
    let (text, _) = files::read_plain(&path, MOST).ok()?;
    serde_json::from_str(&text).ok()
}

fn has_scores(run: &Path) -> bool {
    let text = files::read_plain(&run.join(run_dir::SCORES), MOST);
    let scores = text
        .ok()
        .and_then(|(text, _)| serde_json::from_str::<serde_json::Value>(&text).ok());
    scores.is_some_and(|scores| {
        scores
            .get("valid")
            .is_some_and(serde_json::Value::is_object)
    })
}
