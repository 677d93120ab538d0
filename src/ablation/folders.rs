//! The arms of a sweep in their folders, and a sweep's folder that grows: arms that did not change keep the folder
//! that they have, whatever they are called since another axis was added.

use crate::ablation::placing::put_whole;
use crate::ablation::prepared::{Prepared, Sweep};
use crate::ablation::settings::{ArmSettings, changed};
use crate::ablation::slurm::SCRIPT;
use crate::ablation::sources;
use crate::error::{Error, Result};
use crate::experiment::{self, Loaded, resolved_toml};
use crate::report::read::sweep::{
    ARM, CELLS, EndState, LEDGER, PLAN, PlannedArm, SweepFolder, SweepPlan,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Held while a plan is settled.
const LOCK: &str = "planning.lock";

/// Locks the planning of a sweep's folder for as long as the result lives; other processes wait. Two sweeps
/// that begin together would otherwise both measure how many steps a budget of time allows.
///
/// # Errors
/// A folder that cannot be made or locked.
pub fn planning(folder: &Path) -> Result<fs::File> {
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
pub struct Before {
    /// The plan.
    pub plan: Option<SweepPlan>,
    /// The file of the first rung's decision, where it is decided.
    decided: Option<PathBuf>,
    /// The end of a cell that was trained to its end, of a sweep without rungs.
    whole: Option<PathBuf>,
    /// The arms by their folders, those that have left the plan included.
    arms: BTreeMap<String, ArmSettings>,
    /// The folder.
    path: PathBuf,
}

impl Before {
    /// Reads what is there.
    ///
    /// # Errors
    /// A folder that holds something else than a sweep; a plan or an arm that is none.
    pub fn read(folder: &Path) -> Result<Self> {
        if !SweepFolder::is_one(folder) {
            return foreign(folder).map(|()| Self::default());
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
            decided,
            whole,
            arms,
            path: folder.to_path_buf(),
        })
    }

    /// The settings of the arm in a folder.
    pub(super) fn arm(&self, folder: &str) -> Option<&ArmSettings> {
        self.arms.get(folder)
    }

    /// An error where the folder is another sweep's, whose plan this one would take the place of.
    fn require_same_name(&self, name: &str) -> Result<()> {
        match &self.plan {
            Some(was) if was.name != name => Err(Error::usage(format!(
                "{} holds the sweep `{}`, and this one is `{name}`; name another folder with --run DIR, or delete the sweep that \
                 is there with --fresh",
                self.path.display(),
                was.name
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// An error when a rung was decided among other arms than the plan's, or by another rule, or when rungs come to a sweep
    /// whose arms were trained past them.
    fn require_undecided(&self, now: &SweepPlan) -> Result<()> {
        if let (Some(file), Some(_)) = (&self.whole, &now.halving) {
            return Err(Error::usage(format!(
                "[ablation.halving] stops arms that are behind, but cells were trained to their end without it ({}); give the \
                 sweep another name, leave halving out, or start it over with --fresh",
                file.display()
            )));
        }
        let (Some(file), Some(was)) = (&self.decided, &self.plan) else {
            return Ok(());
        };
        let folders = |plan: &SweepPlan| -> Vec<String> {
            plan.arms.iter().map(|arm| arm.folder.clone()).collect()
        };
        let differs = [
            (folders(was) != folders(now), "the arms"),
            (was.seeds != now.seeds, "the seeds"),
            (was.halving != now.halving, "the rungs"),
            (
                was.metric != now.metric,
                "the values that arms are ranked by",
            ),
        ];
        match differs.iter().find(|(differs, _)| *differs) {
            None => Ok(()),
            Some((_, what)) => Err(Error::usage(format!(
                "{what} were changed, but arms were stopped already ({}); give the sweep another name, or start it \
                 over with --fresh",
                file.display()
            ))),
        }
    }

    /// The plan, with the cells that are there held against what is to be trained beside them; with `retry`, cells that failed
    /// are to be trained, too. Where none is left, nothing is asked, and the arms keep the costs that they were planned with:
    /// their data may be another since then.
    fn held_against(&self, plan: SweepPlan, sweep: &Sweep, retry: bool) -> Result<SweepPlan> {
        let Some(was) = &self.plan else {
            return Ok(plan);
        };
        let path = self.path.clone();
        let now = SweepFolder { path, plan };
        let is_any_left = sources::is_any_left(&now, retry)?;
        let mut plan = now.plan;
        if is_any_left {
            let loaded = sweep.arms.iter().map(|arm| &arm.loaded);
            let arms: Vec<(&PlannedArm, &Loaded)> = plan.arms.iter().zip(loaded).collect();
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

    /// The steps of an arm that is there, when they were found by the same budget.
    pub fn steps_of(&self, arm: &Loaded, budget: &str) -> Option<u64> {
        self.plan.as_ref().filter(|plan| plan.budget == budget)?;
        let wanted = ArmSettings::of(arm).ok()?;
        let mut all = self.arms.values();
        let same = all.find(|there| there.but_for_steps().eq(wanted.but_for_steps()));
        same.map(|there| there.steps)
    }
}

/// Refuses a folder that holds something else than what a sweep leaves when it is killed while it begins.
fn foreign(folder: &Path) -> Result<()> {
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
            "{} holds something else than a sweep; name another folder with --run DIR",
            folder.display()
        ))),
    }
}

/// Plans a sweep in a folder, beside what is there; nothing is written. Also what each arm's file is to hold.
///
/// # Errors
/// A folder of a sweep with another name; an arm whose cells were trained as something else; while cells are left to train, failed ones among them with `retry`, also
/// one whose cells were made from other data or weights. A file of the ledger that is none.
pub fn planned(
    sweep: &Sweep,
    before: &Before,
    retry: bool,
) -> Result<(SweepPlan, Vec<(String, String)>)> {
    before.require_same_name(&sweep.name)?;
    let folders = folders(sweep, before)?;
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
    Ok((before.held_against(plan, sweep, retry)?, files))
}

/// The folder of each arm: the one under its name when it has not changed, else one that holds the same arm under
/// another name, else a new one.
fn folders(sweep: &Sweep, before: &Before) -> Result<Vec<String>> {
    let known: &[PlannedArm] = before.plan.as_ref().map_or(&[], |plan| &plan.arms);
    let named = |arm: &Prepared| known.iter().find(|a| a.name == arm.name).map(|a| &a.folder);
    let mut own = Vec::new();
    let mut found: Vec<Option<String>> = Vec::new();
    for arm in &sweep.arms {
        own.push(ArmSettings::of(&arm.loaded)?);
        let same = |folder: &&String| {
            // A file that was deleted is written anew.
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
            (None, Some(folder)) => return Err(changed(&arm.name, &before.arms[folder], &own[i])),
            (None, None) => {
                let is_free = |folder: &str| !taken(folder) && !before.arms.contains_key(folder);
                fresh_folder(&arm.name, &is_free)
            }
        };
        found[i] = Some(folder);
    }
    Ok(found.into_iter().flatten().collect())
}

/// An arm's experiment as its folder holds it.
fn arm_toml(arm: &Prepared, folder: &str) -> Result<String> {
    let mut experiment = arm.loaded.experiment.anchored(&arm.loaded.places())?;
    experiment.name = folder.into();
    Ok(resolved_toml(&experiment))
}

/// A folder for an arm's name: what paths can hold of it, with a number where that is not enough.
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

/// Writes a plan into its folder, what is there already left as it is; the plan itself last, in one step.
///
/// # Errors
/// Files that cannot be written.
pub fn write(folder: &Path, plan: &SweepPlan, files: &[(String, String)]) -> Result<SweepFolder> {
    for (arm, text) in files {
        let arm = folder.join(CELLS).join(arm);
        fs::create_dir_all(&arm).map_err(Error::io("create", &arm))?;
        put_whole(&arm.join(ARM), text)?;
    }
    let text = serde_json::to_string_pretty(plan)
        .map_err(|e| Error::run(format!("cannot write the plan of a sweep: {e}")))?;
    put_whole(&folder.join(PLAN), &format!("{text}\n"))?;
    SweepFolder::read(folder)
}
