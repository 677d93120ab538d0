//! Sources of a sweep's cells beside their settings: the files of their data, their initial weights and their teachers.
//! Cells that are trained later must use the same sources, or arms would differ in these too.

use crate::data::SearchPath;
use crate::data::catalog::fingerprint::Fingerprint;
use crate::error::{Error, Result};
use crate::experiment::teacher::{self, WeightsId};
use crate::experiment::{self, Experiment, LoadedExperiment, data_files, initial, judge};
use crate::report::read::sweep::{ARM, CELLS, EndState, PlannedArm, SweepFolder, seed_folder};
use crate::train::run_dir::{FILES, REWARD, TEACHER, is_run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Advice for cells that were made from other sources.
pub const ADVICE: &str = "restore it, give the sweep another name, or start it over with --fresh";

/// Compares the sources of every cell that was started with those that it would be made from now.
///
/// # Errors
/// If a cell was made from other sources, or if files cannot be read.
pub fn require_same(
    folder: &Path,
    arms: &[(&PlannedArm, &LoadedExperiment)],
    seeds: &[u64],
) -> Result<()> {
    let mut present = CurrentSources::default();
    for (arm, loaded) in arms {
        let places = loaded.places();
        let mut experiment = loaded.experiment.clone();
        for seed in seeds {
            let name = seed_folder(*seed);
            let run = folder.join(CELLS).join(&arm.folder).join(&name);
            if !is_run(&run) {
                continue;
            }
            experiment.seed = *seed;
            if let Some(other) = present.first_difference(&run, &experiment, &places)? {
                return Err(Error::usage(format!(
                    "cell {}.{name}: {other}; {ADVICE}",
                    arm.folder
                )));
            }
        }
    }
    Ok(())
}

/// Returns whether a sweep has a cell left to train, including cells whose runs were deleted and, with `retry`, failed
/// cells.
///
/// # Errors
/// If a file of the ledger is invalid.
pub fn has_cells_left(sweep: &SweepFolder, retry: bool) -> Result<bool> {
    let mut left = false;
    // Every file is read, so that a damaged one is reported wherever it is.
    for (arm, seed) in sweep.cells() {
        let ending = sweep.ending(arm, seed)?;
        left |= ending.is_none_or(|ending| retry && ending.state == EndState::Failed);
        left |= sweep.is_deleted(arm, seed)?;
    }
    Ok(left)
}

/// Like [`require_same`], for the sweep in a folder, whose plan is settled. If no cell is left to train (failed cells
/// included with `retry`), nothing is checked.
///
/// # Errors
/// As [`require_same`]; also if a file of an arm or of the ledger is invalid.
pub fn require_same_in(sweep: &SweepFolder, retry: bool) -> Result<()> {
    if !has_cells_left(sweep, retry)? {
        return Ok(());
    }
    let file = |arm: &PlannedArm| sweep.path.join(CELLS).join(&arm.folder).join(ARM);
    let all = sweep.plan.arms.iter();
    let loaded: Vec<LoadedExperiment> = all
        .map(|arm| experiment::load(&file(arm), &[]))
        .collect::<Result<_>>()?;
    let arms: Vec<(&PlannedArm, &LoadedExperiment)> = sweep.plan.arms.iter().zip(&loaded).collect();
    require_same(&sweep.path, &arms, &sweep.plan.seeds)
}

/// The present sources of cells, as far as they have been read.
#[derive(Default)]
struct CurrentSources {
    files: Vec<Fingerprint>,
    /// The `[data]` and the recorded checksums of runs whose files are unchanged, so that each arm's files are read
    /// once.
    verified: BTreeSet<(String, String)>,
    weights: initial::CheckpointCache,
    teachers: teacher::WeightsCache,
    rewards: teacher::WeightsCache,
}

impl CurrentSources {
    /// Describes the first source that differs from the one that a run was made from.
    fn first_difference(
        &mut self,
        run: &Path,
        experiment: &Experiment,
        places: &SearchPath,
    ) -> Result<Option<String>> {
        let data = experiment.data.with_paths(|path| places.anchored(path));
        let sums = fs::read_to_string(run.join(FILES)).unwrap_or_default();
        let known = (format!("{data:?}"), sums);
        if !self.verified.contains(&known) {
            if let Some(file) =
                data_files::first_changed_file(run, experiment, places, &mut self.files)?
            {
                return Ok(Some(format!("{file}: its content changed")));
            }
            self.verified.insert(known);
        }
        match self.weights_difference(run, experiment, places)? {
            Some(weights) => Ok(Some(weights)),
            None => match self.teacher_difference(run, experiment, places)? {
                Some(teacher) => Ok(Some(teacher)),
                None => self.rewards_difference(run, experiment, places),
            },
        }
    }

    fn weights_difference(
        &mut self,
        run: &Path,
        experiment: &Experiment,
        places: &SearchPath,
    ) -> Result<Option<String>> {
        let before = initial::read(run)?;
        if before.is_empty() {
            return Ok(None);
        }
        // If a source run is gone, finished cells do not need it, and cells still to train report it themselves.
        let Ok(now) = initial::current_checkpoints(experiment, places, &mut self.weights) else {
            return Ok(None);
        };
        let other = now.iter().find_map(|now| {
            let before = before.iter().find(|before| before.key == now.key)?;
            (before.sha256 != now.sha256).then(|| {
                let (table, key) = split(&now.key);
                format!(
                    "[{table}] {key} = {} no longer has the weights that the run started from: its checkpoint `{}` is now from \
                     step {} (sha256 {}) and was from step {} (sha256 {})",
                    now.run, now.checkpoint, now.step, now.sha256, before.step, before.sha256
                )
            })
        });
        Ok(other)
    }

    fn teacher_difference(
        &mut self,
        run: &Path,
        experiment: &Experiment,
        places: &SearchPath,
    ) -> Result<Option<String>> {
        let Some(named) = teacher::frozen_run(experiment) else {
            return Ok(None);
        };
        if !run.join(TEACHER).is_file() {
            return Ok(None);
        }
        let before = WeightsId::read(run)?;
        let Ok(Some(now)) = teacher::current_weights(experiment, places, &mut self.teachers) else {
            return Ok(None);
        };
        Ok((before.sha256 != now.sha256).then(|| {
            let (table, key) = split(named.key);
            format!(
                "[{table}] {key} = {} no longer has the weights that the run learned from: they are now from step {} (sha256 {}) \
                 and were from step {} (sha256 {})",
                named.path.display(),
                now.step,
                now.sha256,
                before.step,
                before.sha256
            )
        }))
    }

    fn rewards_difference(
        &mut self,
        run: &Path,
        experiment: &Experiment,
        places: &SearchPath,
    ) -> Result<Option<String>> {
        if !run.join(REWARD).is_file() {
            return Ok(None);
        }
        let before = judge::stored_weights(experiment, run)?;
        let now = judge::current_weights(experiment, places, &mut self.rewards);
        let (Some(before), Ok(Some((folder, now)))) = (before, now) else {
            return Ok(None);
        };
        Ok((before.sha256 != now.sha256).then(|| {
            let (table, key) = split(judge::PATH);
            format!(
                "[{table}] {key} = {} no longer has the weights that rewarded the run: they are now from step {} (sha256 {}) and \
                 were from step {} (sha256 {})",
                folder.display(),
                now.step,
                now.sha256,
                before.step,
                before.sha256
            )
        }))
    }
}

/// Splits a dotted key into its table and the key in it.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}
