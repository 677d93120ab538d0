//! The folders of a sweep's arms, also in a sweep that grows: unchanged arms keep their folders, even if their names have changed
//! because an axis was added.

use crate::ablation::atomic_files::replace_file;
use crate::ablation::prepared::{PreparedArm, Sweep};
use crate::ablation::settings::{ArmSettings, changed_arm_error};
use crate::ablation::slurm::SCRIPT;
use crate::ablation::sources;
use crate::error::{Error, Result};
use crate::experiment::{self, LoadedExperiment, resolved_toml};
use crate::report::read::sweep::{
    ARM, CELLS, EndState, LEDGER, PLAN, PlannedArm, SweepFolder, SweepPlan,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lock file that is held while a plan is made.
const LOCK: &str = "planning.lock";

/// Locks the planning of a sweep's folder for as long as the returned file lives; other processes wait. Otherwise two sweeps that
/// start together would both measure how many steps a budget of time allows.
///
/// # Errors
/// If the folder cannot be created or locked.
pub fn lock_planning(folder: &Path) -> Result<fs::File> {
    fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let path = folder.join(LOCK);
    let file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(Error::io("write", &path))?;
    file.lock().map_err(Error::io("lock", &path))?;
    Ok(file)
}

/// The content of a sweep's folder before planning.
#[derive(Clone, Debug, Default)]
pub struct ExistingSweep {
    /// The plan.
    pub plan: Option<SweepPlan>,
    /// File of the first rung's decision, if that rung is decided.
    first_decision: Option<PathBuf>,
    /// File of the ending of a cell that was trained to its end, if the sweep has no rungs.
    finished_cell: Option<PathBuf>,
    /// Settings of the arms by folder, including arms that are no longer in the plan.
    arms: BTreeMap<String, ArmSettings>,
    /// The folder.
    path: PathBuf,
}

impl ExistingSweep {
    /// Reads the present content of the folder.
    ///
    /// # Errors
    /// If the folder holds something other than a sweep, or if its plan or an arm's file is invalid.
    pub fn read(folder: &Path) -> Result<Self> {
        if !SweepFolder::is_sweep(folder) {
            return require_sweep_folder(folder).map(|()| Self::default());
        }
        let mut arms = BTreeMap::new();
        for entry in fs::read_dir(folder.join(CELLS))
            .into_iter()
            .flatten()
            .flatten()
        {
            let file = entry.path().join(ARM);
            if file.is_file() {
                let loaded = experiment::load(&file, &[])?;
                arms.insert(
                    entry.file_name().to_string_lossy().into_owned(),
                    ArmSettings::of(&loaded)?,
                );
            }
        }
        let there = SweepFolder::read(folder)?;
        let decided = Some(there.decision_file(1)).filter(|file| file.exists());
        let is_done = |(arm, seed): &(&PlannedArm, u64)| {
            let ending = there.ending(arm, *seed).ok().flatten();
            ending.is_some_and(|ending| ending.state == EndState::Done)
        };
        let done = there.cells().find(is_done);
        let without_rungs = done.filter(|_| there.plan.halving.is_none());
        let whole = without_rungs.map(|(arm, seed)| there.ending_file(arm, seed));
        Ok(Self {
            plan: Some(there.plan),
            first_decision: decided,
            finished_cell: whole,
            arms,
            path: folder.to_path_buf(),
        })
    }

    /// Returns the settings of the arm in a folder.
    pub(super) fn arm(&self, folder: &str) -> Option<&ArmSettings> {
        self.arms.get(folder)
    }

    /// Fails if the folder holds another sweep, whose plan this one would replace.
    fn require_same_name(&self, name: &str) -> Result<()> {
        match &self.plan {
            Some(was) if was.name != name => Err(Error::usage(format!(
                "{} contains the sweep `{}`, but this sweep is `{name}`; choose another folder with --run DIR, or delete the \
                 existing sweep with --fresh",
                self.path.display(),
                was.name
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Fails if a rung was decided with other arms than the plan's or by another rule, or if the plan adds rungs to a sweep whose
    /// arms were already trained past them.
    fn require_undecided(&self, now: &SweepPlan) -> Result<()> {
        if let (Some(file), Some(_)) = (&self.finished_cell, &now.halving) {
            return Err(Error::usage(format!(
                "[ablation.halving] stops arms that fall behind, but cells were already trained to the end without it ({}); give \
                 the sweep another name, remove halving, or start it over with --fresh",
                file.display()
            )));
        }
        let (Some(file), Some(was)) = (&self.first_decision, &self.plan) else {
            return Ok(());
        };
        let folders = |plan: &SweepPlan| -> Vec<String> {
            plan.arms.iter().map(|arm| arm.folder.clone()).collect()
        };
        let differs = [
            (folders(was) != folders(now), "the arms"),
            (was.seeds != now.seeds, "the seeds"),
            (was.halving != now.halving, "the rungs"),
            (was.metric != now.metric, "the metric that ranks the arms"),
        ];
        match differs.iter().find(|(differs, _)| *differs) {
            None => Ok(()),
            Some((_, what)) => Err(Error::usage(format!(
                "{what} changed, but arms were already stopped ({}); give the sweep another name, or start it over with --fresh",
                file.display()
            ))),
        }
    }

    /// Compares the existing cells with those still to train, which must use the same data and weights; with `retry`, failed
    /// cells are to be trained too. If no cell is left, nothing is checked, and the arms keep the costs of the previous plan,
    /// since their data may have changed since.
    fn check_existing_cells(
        &self,
        plan: SweepPlan,
        sweep: &Sweep,
        retry: bool,
    ) -> Result<SweepPlan> {
        let Some(was) = &self.plan else {
            return Ok(plan);
        };
        let path = self.path.clone();
        let now = SweepFolder { path, plan };
        let is_any_left = sources::has_cells_left(&now, retry)?;
        let mut plan = now.plan;
        if is_any_left {
            let loaded = sweep.arms.iter().map(|arm| &arm.loaded);
            let arms: Vec<(&PlannedArm, &LoadedExperiment)> =
                plan.arms.iter().zip(loaded).collect();
            sources::require_same(&self.path, &arms, &plan.seeds)?;
            return Ok(plan);
        }
        for arm in &mut plan.arms {
            if let Some(was) = was.arms.iter().find(|was| was.folder == arm.folder) {
                (arm.params, arm.flops_per_item) = (was.params, was.flops_per_item);
            }
        }
        Ok(plan)
    }

    /// Returns the number of steps of an existing arm with the same settings, if it was found with the same budget.
    pub fn steps_of(&self, arm: &LoadedExperiment, budget: &str) -> Option<u64> {
        self.plan.as_ref().filter(|plan| plan.budget == budget)?;
        let wanted = ArmSettings::of(arm).ok()?;
        let mut all = self.arms.values();
        let same = all.find(|there| there.without_steps().eq(wanted.without_steps()));
        same.map(|there| there.steps)
    }
}

/// Refuses a folder that holds anything other than what a sweep leaves behind when it is killed at its start.
fn require_sweep_folder(folder: &Path) -> Result<()> {
    let ours = |name: &str| {
        let file = [PLAN, SCRIPT, LOCK]
            .iter()
            .any(|file| name.starts_with(file));
        file || name == LEDGER || name == CELLS
    };
    let holds = match fs::read_dir(folder) {
        Ok(mut entries) => entries
            .any(|entry| entry.is_ok_and(|entry| !ours(&entry.file_name().to_string_lossy()))),
        Err(_) => folder.exists(),
    };
    match holds {
        false => Ok(()),
        true => Err(Error::usage(format!(
            "{} contains files that do not belong to a sweep; choose another folder with --run DIR",
            folder.display()
        ))),
    }
}

/// Plans a sweep in a folder, taking its present content into account; nothing is written. Also returns the folder and file
/// content of each arm.
///
/// # Errors
/// If the folder holds a sweep with another name, if an arm's cells were trained with other settings, or if a file of the ledger
/// is invalid. While cells are left to train (failed ones included with `retry`), also if an arm's cells were made from other
/// data or weights.
pub fn plan_sweep(
    sweep: &Sweep,
    before: &ExistingSweep,
    retry: bool,
) -> Result<(SweepPlan, Vec<(String, String)>)> {
    before.require_same_name(&sweep.name)?;
    let folders = arm_folders(sweep, before)?;
    let mut files = Vec::new();
    let mut arms = Vec::new();
    for (arm, folder) in sweep.arms.iter().zip(folders) {
        files.push((folder.clone(), arm_toml(arm, &folder)?));
        arms.push(PlannedArm {
            name: arm.name.clone(),
            folder,
            settings: arm.settings.clone(),
            steps: arm.cost.steps,
            params: arm.cost.params,
            flops_per_item: arm.cost.flops_per_item,
        });
    }
    let config = &sweep.config;
    let mut axes: Vec<String> = config.axes.keys().cloned().collect();
    let arm_keys = config.arms.iter().flat_map(|arm| arm.set.keys());
    let drawn = config.random.iter().flat_map(|random| random.ranges.keys());
    for key in arm_keys.chain(drawn) {
        if !axes.contains(key) {
            axes.push(key.clone());
        }
    }
    let plan = SweepPlan {
        name: sweep.name.clone(),
        metric: config.metric.clone(),
        baseline: sweep.baseline.clone(),
        budget: sweep.budget.clone(),
        axes,
        seeds: (0..config.seeds).map(|i| sweep.first_seed + i).collect(),
        arms,
        halving: sweep.halving.clone(),
    };
    before.require_undecided(&plan)?;
    Ok((before.check_existing_cells(plan, sweep, retry)?, files))
}

/// Returns the folder of each arm: its folder in the previous plan if the arm has not changed, else one that holds the same arm
/// under another name, else a new one.
fn arm_folders(sweep: &Sweep, before: &ExistingSweep) -> Result<Vec<String>> {
    let known: &[PlannedArm] = before.plan.as_ref().map_or(&[], |plan| &plan.arms);
    let named = |arm: &PreparedArm| known.iter().find(|a| a.name == arm.name).map(|a| &a.folder);
    let mut own = Vec::new();
    let mut found: Vec<Option<String>> = Vec::new();
    for arm in &sweep.arms {
        own.push(ArmSettings::of(&arm.loaded)?);
        let same = |folder: &&String| {
            // A file that was deleted is written again.
            before
                .arms
                .get(*folder)
                .is_none_or(|there| Some(there) == own.last())
        };
        found.push(named(arm).filter(same).cloned());
    }
    for (i, arm) in sweep.arms.iter().enumerate() {
        if found[i].is_some() {
            continue;
        }
        let taken = |folder: &str| found.iter().flatten().any(|f| f == folder);
        let mut there = before.arms.iter();
        let same = there.find(|(folder, there)| **there == own[i] && !taken(folder));
        let folder = match (same, named(arm)) {
            (Some((folder, _)), _) => folder.clone(),
            (None, Some(folder)) => {
                return Err(changed_arm_error(&arm.name, &before.arms[folder], &own[i]));
            }
            (None, None) => {
                let is_free = |folder: &str| !taken(folder) && !before.arms.contains_key(folder);
                fresh_folder(&arm.name, &is_free)
            }
        };
        found[i] = Some(folder);
    }
    Ok(found.into_iter().flatten().collect())
}

/// Returns an arm's experiment as its folder stores it.
fn arm_toml(arm: &PreparedArm, folder: &str) -> Result<String> {
    let mut experiment = arm
        .loaded
        .experiment
        .with_absolute_paths(&arm.loaded.places())?;
    experiment.name = folder.into();
    Ok(resolved_toml(&experiment))
}

/// Returns a new folder for an arm's name: its characters that are safe in paths, with a number if that name is taken.
fn fresh_folder(name: &str, is_free: &dyn Fn(&str) -> bool) -> String {
    const LONGEST: usize = 60;
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-_+".contains(c) => c,
        '=' => '_',
        _ => '-',
    };
    let text: String = name.chars().map(plain).take(LONGEST).collect();
    let mut stem = String::new();
    for c in text.trim_matches('-').chars() {
        if !(c == '-' && stem.ends_with('-')) {
            stem.push(c);
        }
    }
    if stem.is_empty() {
        stem = "arm".into();
    }
    let numbered = (2u64..).map(|n| format!("{stem}-{n}"));
    std::iter::once(stem.clone())
        .chain(numbered)
        .find(|folder| is_free(folder))
        .unwrap_or(stem)
}

/// Writes a plan and its arms' files into the folder, without touching other files; the plan itself is written last, in one step.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, plan: &SweepPlan, files: &[(String, String)]) -> Result<SweepFolder> {
    for (arm, text) in files {
        let arm = folder.join(CELLS).join(arm);
        fs::create_dir_all(&arm).map_err(Error::io("create", &arm))?;
        replace_file(&arm.join(ARM), text)?;
    }
    let text = serde_json::to_string_pretty(plan)
        .map_err(|e| Error::run(format!("cannot write the plan of a sweep: {e}")))?;
    replace_file(&folder.join(PLAN), &format!("{text}\n"))?;
    SweepFolder::read(folder)
}
