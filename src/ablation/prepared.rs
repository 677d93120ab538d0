//! A sweep that is checked and costed, before it has a folder.

use crate::ablation::matching::Cost;
use crate::error::Result;
use crate::experiment::Loaded;
use crate::experiment::ablation::AblationConfig;
use crate::report::read::rungs::Rungs;
use std::collections::BTreeMap;

/// Settings of an arm by dotted key, as TOML.
pub type Settings = BTreeMap<String, String>;

/// Finds the faults of an arm's experiment.
pub type Check = fn(&Loaded) -> Result<()>;

/// An arm, ready to be put into a sweep's folder.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: Settings,
    /// The tables of the file that its kinds replace, a sentence each.
    pub replaced: Vec<String>,
    /// Its cost and its steps.
    pub cost: Cost,
    /// Its experiment, without a seed of its own.
    pub loaded: Loaded,
}

impl Prepared {
    /// The tables of the file that the arm's kinds replace, with the arm's name.
    pub fn replaced(&self) -> impl Iterator<Item = String> {
        let each = self.replaced.iter();
        each.map(|replaced| format!("arm `{}`: {replaced}", self.name))
    }
}

/// A sweep before it has a folder.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The settings that are varied, and the seeds.
    pub config: AblationConfig,
    /// `name` of the experiment.
    pub name: String,
    /// The seed of every arm's first run.
    pub first_seed: u64,
    /// The name of the arm that others are compared with.
    pub baseline: String,
    /// Budget and match, to know a changed one.
    pub budget: String,
    /// The arms, in the order of the file.
    pub arms: Vec<Prepared>,
    /// What is said of keys of `--set` that some arms give themselves.
    pub said: Vec<String>,
    /// The rungs at which arms that are behind are stopped.
    pub halving: Option<Rungs>,
}
