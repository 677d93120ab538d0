//! The state of a run that is to be resumed: its experiment, its checkpoints, and whether anything is left to do.

use super::{Options, changes};
use crate::data::{SearchPath, Split};
use crate::error::{Error, Result, shell_word};
use crate::experiment::{Experiment, data_files, file, run_contents};
use crate::train::TrainConfig;
use crate::train::checkpoint::{self, Search, State};
use crate::train::job::{Outcome, StopReason};
use crate::train::{journals, run_dir, run_manifest};
use std::path::Path;

/// A run as found, compared with the requested experiment.
pub(super) struct FoundRun {
    /// The run's own experiment, with paths as stored in its folder.
    pub stored: Experiment,
    /// Result of the search for its checkpoints.
    pub search: Search,
    /// Keys that are to change.
    pub changed: Vec<String>,
    /// Whether paths of its data or its teacher are to change.
    pub paths_changed: bool,
}

impl FoundRun {
    /// Reads the run in `folder` and compares it with the requested experiment. Nothing is written.
    ///
    /// # Errors
    /// If files of the run were changed; if a key must not change; if a data path changes in a run that stores no fingerprints
    /// to prove that its content is the same.
    pub fn of(experiment: &Experiment, places: &SearchPath, folder: &Path) -> Result<Self> {
        run_manifest::verify(folder)?;
        let stored = file::load(&folder.join(run_dir::RESOLVED), &[])?;
        let own = stored.places();
        let search = checkpoint::newest_to_resume(folder);
        if let Some(found) = &search.found {
            run_manifest::require_sealed(folder, found.state())?;
        }
        let [was, asked] = [(&stored.experiment, &own), (experiment, places)]
            .map(|(experiment, places)| experiment.with_absolute_paths(places));
        let (was, asked) = (was?, asked?);
        let changed = changes::changed_keys(&was, &asked, folder, search.found.is_some())?;
        let other_data = was.data != asked.data;
        let other_places = other_data || was.task != asked.task;
        if other_data && !data_files::has_fingerprints(folder) {
            return Err(Error::usage(format!(
                "[data] has a different path than the run {}, which has no checksums of its files ({}) to prove that they are the \
                 same; restore the path, or start a new run with --run DIR",
                folder.display(),
                run_dir::FILES
            )));
        }
        Ok(Self {
            stored: stored.experiment,
            search,
            changed,
            paths_changed: other_places,
        })
    }

    /// The state of the newest checkpoint, and why the run ended, if no further step is to be taken from it.
    fn ended(&self, config: &TrainConfig) -> Option<(&State, StopReason)> {
        let state = self.search.found.as_ref()?.state();
        let waited = state.evaluations_without_improvement;
        let patient = config.patience.is_some_and(|patience| waited >= patience);
        match state.step {
            step if step == config.steps => Some((state, StopReason::Done)),
            step if step > 0 && step < config.steps && patient => {
                Some((state, StopReason::NoImprovement))
            }
            _ => None,
        }
    }

    /// Returns the outcome of a run that has ended and lacks nothing.
    pub fn outcome(&self, experiment: &Experiment, folder: &Path) -> Option<Outcome> {
        let (state, stopped) = self.ended(&experiment.train)?;
        let copies = experiment.journal;
        let has = |name: &str| folder.join(name).exists();
        let events = || run_dir::event_files(folder).is_ok_and(|all| !all.is_empty());
        let last = run_contents::scores_at(folder, Split::Valid.name(), state.step);
        let lacks = !self.search.refused.is_empty()
            || state.evaluation_due
            || !checkpoint::stale_links(folder, state).is_empty()
            || copies.csv && !has(run_dir::CSV)
            || copies.tensorboard && !events()
            || experiment.data.data_set().has(Split::Valid) && last.is_none();
        (!lacks).then(|| Outcome {
            step: state.step,
            stopped,
            best: state.best.map(|best| (best.step, best.value)),
            last,
            elapsed_s: state.elapsed_s,
            skipped: state.skipped_steps,
        })
    }

    /// Returns the experiment to continue with: the requested one. If no step is left that could use the changed keys, it is
    /// the run's own, in which only the journal copies and the locations of files may still change; `options` then receives a
    /// notice.
    pub fn experiment_to_resume(&self, asked: &Experiment, options: &Options) -> Experiment {
        let Some((state, stopped)) = self.ended(&asked.train) else {
            return asked.clone();
        };
        let lost: Vec<&str> = self.changed.iter().map(String::as_str).collect();
        let lost: Vec<&str> = lost
            .into_iter()
            .filter(|key| !is_journal_copy_key(key))
            .collect();
        if lost.is_empty() {
            return asked.clone();
        }
        (options.notice)(&format!(
            "{}; ignored: {}",
            finished_message(state, stopped),
            lost.join(", ")
        ));
        Experiment {
            data: asked.data.clone(),
            task: asked.task.clone(),
            journal: asked.journal,
            ..self.stored.clone()
        }
    }

    /// Returns a line saying that a run has nothing left to do, and which keys were not changed.
    pub fn nothing_to_do(&self, experiment: &Experiment) -> Option<String> {
        let (state, stopped) = self.ended(&experiment.train)?;
        let kept = match self.changed.join(", ") {
            none if none.is_empty() => String::new(),
            changed => format!("; ignored: {changed}"),
        };
        Some(format!(
            "nothing to do: {}{kept}",
            finished_message(state, stopped)
        ))
    }
}

/// Whether a key belongs to the copies of the journals, which can still be made after the last step.
pub(super) fn is_journal_copy_key(key: &str) -> bool {
    key.starts_with("journal.")
}

fn finished_message(state: &State, stopped: StopReason) -> String {
    let step = state.step;
    match stopped {
        StopReason::NoImprovement => format!(
            "the run stopped early at step {step}; a larger train.patience lets it continue"
        ),
        StopReason::Done | StopReason::Paused | StopReason::Interrupted => {
            format!("all {step} steps are done; a larger train.steps adds more")
        }
    }
}

/// The error if no checkpoint of the run can be resumed from: all are damaged or missing, or lines of a journal are. It
/// suggests the resolved file, since the author's file may extend another one that the folder lacks.
pub(super) fn no_checkpoint_error(folder: &Path) -> Error {
    if let Some(whole) = checkpoint::newest_complete(folder).found
        && let Err(lost) = journals::require_lines(folder, whole.state())
    {
        let from = folder.canonicalize().unwrap_or_else(|_| folder.into());
        return Error::run(format!(
            "the weights of {} at step {} are complete, but lines of its journal are missing: {lost}. Restore the file, or start \
             a new run from the weights with [init] from = {:?}; eval, generate and export still read the run",
            folder.display(),
            whole.state().step,
            from.display().to_string(),
        ));
    }
    Error::run(format!(
        "{} has no complete checkpoint left; start again with: formwork train {} --fresh --run {}",
        folder.display(),
        shell_word(&folder.join(run_dir::RESOLVED)),
        shell_word(folder)
    ))
}
