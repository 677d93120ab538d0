//! The numbers of a comparison: of one run, and of an arm over its seeds.

use std::collections::BTreeMap;

use super::learning::Learning;
use super::statistics::contrast::Contrast;
use super::statistics::rates::Rate;
use super::statistics::summary::Summary;

/// The compared metric of one run.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// Best evaluation: step (none when it comes from `scores.json`) and value.
    pub best: Option<(Option<u64>, f64)>,
    /// Last evaluation, when it is a number.
    pub last: Option<(Option<u64>, f64)>,
    /// Other metrics at the best evaluation.
    pub metrics: BTreeMap<String, f64>,
}

/// The results of an arm over its seeds.
#[derive(Clone, Debug)]
pub struct ArmResults {
    /// Best value.
    pub best: Option<Summary>,
    /// Step of the best value, the mean over runs.
    pub best_step: Option<f64>,
    /// Final value.
    pub last: Option<Summary>,
    /// Other metrics at the best evaluation.
    pub metrics: BTreeMap<String, Summary>,
    /// How fast it learns.
    pub learning: Learning,
    /// Runs that diverged, of those that were begun.
    pub diverged: Rate,
    /// Items per second.
    pub items_per_s: Option<Summary>,
    /// Wall time in seconds.
    pub elapsed_s: Option<Summary>,
    /// Best value against the first arm's; none for the first arm.
    pub best_gap: Option<Contrast>,
    /// Final value against the first arm's.
    pub last_gap: Option<Contrast>,
}
