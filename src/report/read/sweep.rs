//! A sweep's folder as reports read it: what was planned (`sweep.json`), how each cell ended (`ledger/`), and where
//! its run lies (`cells/ARM/seed-SEED`).
//!
//! A cell is one arm with one seed. `crate::ablation` writes these files while cells are trained; a report of
//! a finished sweep, or of half a one, is made from them and from the run folders alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rungs::Rungs;
use crate::error::{Error, Fault, Result};
use crate::train::run_dir;

/// The plan's file in the sweep's folder.
pub const PLAN: &str = "sweep.json";
/// The folder of the ledger.
pub const LEDGER: &str = "ledger";
/// The folder of the runs.
pub const CELLS: &str = "cells";
/// The experiment of an arm, in its folder of the runs.
pub const ARM: &str = "arm.toml";

/// The folder of an arm's run with a seed, in the arm's.
pub fn run_of_seed(seed: u64) -> String {
    format!("seed-{seed}")
}

/// The plan of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// The sweep's name.
    pub name: String,
    /// The metric that its arms are compared by.
    pub metric: String,
    /// The arm that the others are compared with.
    pub baseline: String,
    /// The rule that decided the steps of its arms.
    #[serde(default)]
    pub budget: String,
    /// The keys that its arms vary, in the order of the file.
    pub axes: Vec<String>,
    /// The seeds of every arm.
    pub seeds: Vec<u64>,
    /// The arms, in the order of the file, the baseline among them.
    pub arms: Vec<PlannedArm>,
    /// The rungs at which arms that are behind are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halving: Option<Rungs>,
}

impl SweepPlan {
    /// A folder that is not one plain name, an arm or a seed twice: no plan holds these.
    fn fault(&self) -> Option<String> {
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\\']);
        let (mut names, mut folders, mut seeds) = Default::default();
        let twice = |set: &mut BTreeSet<String>, name: String| !set.insert(name);
        for arm in &self.arms {
            if !plain(&arm.folder) {
                return Some(format!("{:?} is no folder of an arm", arm.folder));
            }
            if twice(&mut names, arm.name.clone()) || twice(&mut folders, arm.folder.clone()) {
                return Some(format!("the arm `{}` is there twice", arm.name));
            }
        }
        let mut again = self
            .seeds
            .iter()
            .filter(|s| twice(&mut seeds, s.to_string()));
        again
            .next()
            .map(|seed| format!("the seed {seed} is there twice"))
    }
}

/// One arm of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedArm {
    /// Its name.
    pub name: String,
    /// Its folder in `cells/`.
    pub folder: String,
    /// Its settings by dotted key, each value as TOML writes it.
    pub settings: BTreeMap<String, String>,
    /// Optimizer steps.
    pub steps: u64,
    /// Parameters of its model.
    pub params: usize,
    /// FLOPs of a training step for each item (token or image).
    pub flops_per_item: f64,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// How.
    pub state: EndState,
    /// Why it failed or diverged, in a line; empty when it is done.
    #[serde(default)]
    pub reason: String,
    /// How often it was begun or gone on with.
    pub attempts: u32,
}

/// How a cell can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// Trained to its last step.
    Done,
    /// Its loss stopped being a number.
    Diverged,
    /// It ended with an error.
    Failed,
    /// Its arm was behind at a rung of the halving.
    Stopped,
}

/// A sweep's folder, read.
#[derive(Clone, Debug)]
pub struct SweepFolder {
    /// The folder.
    pub path: PathBuf,
    /// The plan.
    pub plan: SweepPlan,
}

impl SweepFolder {
    /// Whether there is a sweep in a folder.
    pub fn is_one(path: &Path) -> bool {
        path.join(PLAN).is_file()
    }

    /// Reads a sweep's plan.
    ///
    /// # Errors
    /// No plan in the folder, or one that is not a plan.
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

    /// The run folder of a cell, whether or not it was begun.
    pub fn run(&self, arm: &PlannedArm, seed: u64) -> PathBuf {
        self.path
            .join(CELLS)
            .join(&arm.folder)
            .join(run_of_seed(seed))
    }

    /// The file that says how a cell ended.
    pub fn ending_file(&self, arm: &PlannedArm, seed: u64) -> PathBuf {
        let name = format!("{}.seed-{seed}.end.json", arm.folder);
        self.path.join(LEDGER).join(name)
    }

    /// How a cell ended; none while it has not.
    ///
    /// # Errors
    /// A file of the ledger that cannot be read or is none.
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

    /// Whether a cell was trained to its end and its run was deleted since: it is to be trained again.
    ///
    /// # Errors
    /// A file of the ledger that cannot be read or is none.
    pub fn is_gone(&self, arm: &PlannedArm, seed: u64) -> Result<bool> {
        let ending = self.ending(arm, seed)?;
        let trained = |end: Ending| matches!(end.state, EndState::Done | EndState::Diverged);
        Ok(ending.is_some_and(trained) && !run_dir::is_run(&self.run(arm, seed)))
    }

    /// Every cell, arm by arm in the order of the plan, seed by seed.
    pub fn cells(&self) -> impl Iterator<Item = (&PlannedArm, u64)> {
        let seeds = |arm| self.plan.seeds.iter().map(move |seed| (arm, *seed));
        self.plan.arms.iter().flat_map(seeds)
    }
}
