//! A sweep that has been checked and costed, but has no folder yet.

use crate::ablation::matching::Cost;
use crate::error::Result;
use crate::experiment::LoadedExperiment;
use crate::experiment::ablation::AblationConfig;
use crate::report::read::rungs::Rungs;
use std::collections::BTreeMap;

/// Settings of an arm by dotted key, as TOML values.
pub type Settings = BTreeMap<String, String>;

/// A function that finds the faults of an arm's experiment.
pub type ArmCheck = fn(&LoadedExperiment) -> Result<()>;

/// An arm that is ready to be put into a sweep's folder.
#[derive(Clone, Debug)]
pub struct PreparedArm {
    /// Name of the arm.
    pub name: String,
    /// Settings that the arm changes.
    pub settings: Settings,
    /// Notes, one sentence each, about tables of the file that the arm replaces by choosing another kind.
    pub replaced: Vec<String>,
    /// Cost and steps of the arm.
    pub cost: Cost,
    /// Experiment of the arm, without its own seed.
    pub loaded: LoadedExperiment,
}

impl PreparedArm {
    /// Returns the notes about replaced tables, each with the arm's name.
    pub fn replaced_notes(&self) -> impl Iterator<Item = String> {
        let each = self.replaced.iter();
        each.map(|replaced| format!("arm `{}`: {replaced}", self.name))
    }
}

/// A sweep before it has a folder.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The `[ablation]` table: what is varied, and the seeds.
    pub config: AblationConfig,
    /// Value of `name` in the experiment.
    pub name: String,
    /// Seed of every arm's first run.
    pub first_seed: u64,
    /// Name of the arm that others are compared with.
    pub baseline: String,
    /// Text of match and budget, by which a change is noticed.
    pub budget: String,
    /// The arms, in the order of the file.
    pub arms: Vec<PreparedArm>,
    /// Notes about keys of `--set` that some arms set themselves, and others about the arms.
    pub notes: Vec<String>,
    /// The rungs at which arms that fall behind are stopped.
    pub halving: Option<Rungs>,
}
