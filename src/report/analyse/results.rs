//! Result types of a comparison: for one run, and for an arm over its seeds.

use std::collections::BTreeMap;

use super::learning::Learning;
use super::statistics::contrast::Contrast;
use super::statistics::rates::Rate;
use super::statistics::summary::Summary;

/// The compared metric of one run.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// Best evaluation: step (`None` if it comes from `scores.json` without a step) and value.
    pub best: Option<(Option<u64>, f64)>,
    /// Step and value of the last evaluation, if the value is finite.
    pub last: Option<(Option<u64>, f64)>,
    /// Other metrics at the best evaluation.
    pub metrics: BTreeMap<String, f64>,
    /// Other metrics at the last evaluation.
    pub last_metrics: BTreeMap<String, f64>,
    /// Whether the best value covers only part of the split.
    pub best_is_partial: bool,
    /// Whether the last value covers only part of the split.
    pub last_is_partial: bool,
}

/// The results of an arm over its seeds.
#[derive(Clone, Debug)]
pub struct ArmResults {
    /// Best value.
    pub best: Option<Summary>,
    /// Step of the best value, averaged over runs.
    pub best_step: Option<f64>,
    /// Final value.
    pub last: Option<Summary>,
    /// Other metrics at the best evaluation.
    pub metrics: BTreeMap<String, Summary>,
    /// Other metrics at the last evaluation.
    pub last_metrics: BTreeMap<String, Summary>,
    /// Marks for final values that do not cover the whole split at the last step: `at 40`, `part`.
    pub last_marks: Vec<String>,
    /// How fast the arm learns.
    pub learning: Learning,
    /// Number of diverged runs, out of the runs that were started.
    pub diverged: Rate,
    /// Throughput in items per second.
    pub items_per_s: Option<Summary>,
    /// Wall time in seconds.
    pub elapsed_s: Option<Summary>,
    /// Best value against the first arm's; `None` for the first arm.
    pub best_gap: Option<Contrast>,
    /// Final value against the first arm's; `None` for the first arm.
    pub last_gap: Option<Contrast>,
}
