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
    /// Other metrics at the last evaluation.
    pub last_metrics: BTreeMap<String, f64>,
    /// Whether the best value is of a part of the split.
    pub best_of_part: bool,
    /// Whether the last one is.
    pub last_of_part: bool,
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
    /// Other metrics at the last evaluation.
    pub last_metrics: BTreeMap<String, Summary>,
    /// Marks of the final values that are not of the whole split at the last step: `at 40`, `part`.
    pub last_marks: Vec<String>,
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
