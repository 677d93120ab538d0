//! Reads the folder of a sweep: the plan (`sweep.json`), how each cell ended (`ledger/`), and the run folders
//! (`cells/ARM/seed-SEED`).
//!
//! A cell is one arm with one seed. `crate::ablation` writes these files while cells are trained. A report of a finished
//! or unfinished sweep is made from these files and the run folders only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rungs::Rungs;
use crate::error::{Error, Fault, Result};
use crate::train::run_dir;

/// File name of the plan in a sweep's folder.
pub const PLAN: &str = "sweep.json";
/// Name of the folder that records how cells ended.
pub const LEDGER: &str = "ledger";
/// Name of the folder that holds the runs.
pub const CELLS: &str = "cells";
/// File name of an arm's experiment, in the arm's folder below `cells/`.
pub const ARM: &str = "arm.toml";

/// Returns the name of the run folder for a seed, within its arm's folder.
pub fn seed_folder(seed: u64) -> String {
    format!("seed-{seed}")
}

/// The plan of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Name of the sweep.
    pub name: String,
    /// Metric that the arms are compared by.
    pub metric: String,
    /// Name of the arm that the others are compared with.
    pub baseline: String,
    /// Rule that decided the arms' numbers of steps.
    #[serde(default)]
    pub budget: String,
    /// Keys that the arms vary, in the order of the file.
    pub axes: Vec<String>,
    /// Seeds that every arm is trained with.
    pub seeds: Vec<u64>,
    /// All arms in the order of the file, including the baseline.
    pub arms: Vec<PlannedArm>,
    /// Rungs of successive halving, at which the worst arms are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halving: Option<Rungs>,
}

impl SweepPlan {
    /// Returns what is wrong with the plan: a folder that is not one plain name, or a repeated arm or seed.
    fn fault(&self) -> Option<String> {
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\\']);
        let (mut names, mut folders, mut seeds) = Default::default();
        let twice = |set: &mut BTreeSet<String>, name: String| !set.insert(name);
        for arm in &self.arms {
            if !plain(&arm.folder) {
                return Some(format!("{:?} is not a folder of an arm", arm.folder));
            }
            if twice(&mut names, arm.name.clone()) || twice(&mut folders, arm.folder.clone()) {
                return Some(format!("the arm `{}` occurs twice", arm.name));
            }
        }
        let mut again = self
            .seeds
            .iter()
            .filter(|s| twice(&mut seeds, s.to_string()));
        again
            .next()
            .map(|seed| format!("the seed {seed} occurs twice"))
    }
}

/// One arm of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedArm {
    /// Name of the arm.
    pub name: String,
    /// Name of its folder in `cells/`.
    pub folder: String,
    /// Settings by dotted key, each value as TOML writes it.
    pub settings: BTreeMap<String, String>,
    /// Number of optimizer steps.
    pub steps: u64,
    /// Number of parameters of the model.
    pub params: usize,
    /// FLOPs of a training step per item (token or image).
    pub flops_per_item: f64,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// End state of the cell.
    pub state: EndState,
    /// Why the cell failed or diverged, in one line; empty if it is done.
    #[serde(default)]
    pub reason: String,
    /// Number of times the cell was started or resumed.
    pub attempts: u32,
}

/// The end state of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// Trained to its last step.
    Done,
    /// Its loss stopped being finite.
    Diverged,
    /// It ended with an error.
    Failed,
    /// Its arm was not promoted at a rung of successive halving.
    Stopped,
}

/// A sweep's folder with its parsed plan.
#[derive(Clone, Debug)]
pub struct SweepFolder {
    /// Path of the folder.
    pub path: PathBuf,
    /// Plan of the sweep.
    pub plan: SweepPlan,
}

impl SweepFolder {
    /// Whether a folder is a sweep's, that is, holds a plan.
    pub fn is_sweep(path: &Path) -> bool {
        path.join(PLAN).is_file()
    }

    /// Reads a sweep's plan.
    ///
    /// # Errors
    /// If the folder has no plan, or the plan is invalid.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.join(PLAN);
        let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        let plan: SweepPlan = serde_json::from_str(&text).map_err(|e| {
            Error::Invalid(vec![Fault::at(
                &file,
                e.line(),
                format!("not the plan of a sweep: {e}"),
            )])
        })?;
        if let Some(fault) = plan.fault() {
            let fault = Fault::at(&file, 1, format!("not the plan of a sweep: {fault}"));
            return Err(Error::Invalid(vec![fault]));
        }
        Ok(Self {
            path: path.to_path_buf(),
            plan,
        })
    }

    /// Returns the path of a cell's run folder, whether or not the cell was started.
    pub fn run(&self, arm: &PlannedArm, seed: u64) -> PathBuf {
        self.path
            .join(CELLS)
            .join(&arm.folder)
            .join(seed_folder(seed))
    }

    /// Returns the path of the ledger file that records how a cell ended.
    pub fn ending_file(&self, arm: &PlannedArm, seed: u64) -> PathBuf {
        let name = format!("{}.seed-{seed}.end.json", arm.folder);
        self.path.join(LEDGER).join(name)
    }

    /// Reads how a cell ended; `None` if it has not ended yet.
    ///
    /// # Errors
    /// If the ledger file cannot be read or is invalid.
    pub fn ending(&self, arm: &PlannedArm, seed: u64) -> Result<Option<Ending>> {
        let file = self.ending_file(arm, seed);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &file)(error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            let reason =
                format!("not the end of a cell: {e}; delete the file to train the cell again");
            Error::Invalid(vec![Fault::at(&file, e.line(), reason)])
        })
    }

    /// Whether a cell was trained to its end and its run was deleted since; such a cell must be trained again.
    ///
    /// # Errors
    /// If the ledger file cannot be read or is invalid.
    pub fn is_deleted(&self, arm: &PlannedArm, seed: u64) -> Result<bool> {
        let ending = self.ending(arm, seed)?;
        let trained = |end: Ending| matches!(end.state, EndState::Done | EndState::Diverged);
        Ok(ending.is_some_and(trained) && !run_dir::is_run(&self.run(arm, seed)))
    }

    /// Returns all cells, arm by arm in the order of the plan, and seed by seed within an arm.
    pub fn cells(&self) -> impl Iterator<Item = (&PlannedArm, u64)> {
        let seeds = |arm| self.plan.seeds.iter().map(move |seed| (arm, *seed));
        self.plan.arms.iter().flat_map(seeds)
    }
}
