//! Metrics by name: which one is compared and on which split, in which direction it improves, and which others are shown.

use std::collections::BTreeSet;

use super::statistics::Direction;
use crate::error::{Error, Result, suggestion};
use crate::report::read::run::Run;
use crate::train::metrics::evaluation_metrics;
pub use crate::train::metrics::higher_is_better as more_is_better;

/// Fields of a journal line that measure the run's cost or speed, not the model.
const TIMING: [&str; 4] = ["elapsed_s", "items_per_s", "items", "memory_mb"];
/// Splits, in the order in which they are preferred for a comparison.
pub const SPLITS: [&str; 3] = ["valid", "test", "train"];

/// Returns the rank of a metric among the defined evaluation metrics, which is its order in tables; `None` if no part of the
/// program defines it.
pub fn rank(metric: &str) -> Option<usize> {
    evaluation_metrics().position(|known| known.name == metric)
}

/// Whether a metric is shown in tables: it is a defined one, or it decides which checkpoint of a run is the best.
pub fn is_shown(metric: &str, runs: &[Run]) -> bool {
    rank(metric).is_some() || selects_best(metric, runs)
}

/// Whether a metric decides which checkpoint of a run is its best (`train.best_by`).
pub fn selects_best(metric: &str, runs: &[Run]) -> bool {
    let decides = |(key, value): &(String, String)| {
        key == "train.best_by" && value.strip_prefix("valid_").unwrap_or(value) == metric
    };
    runs.iter().any(|run| run.settings.iter().any(decides))
}

/// Returns the direction in which a metric improves.
pub fn direction(metric: &str) -> Direction {
    match more_is_better(metric) {
        true => Direction::Higher,
        false => Direction::Lower,
    }
}

/// Returns the split and the plain name of a metric: the first split on which any run has it. `test_accuracy` means the
/// accuracy on the test split.
///
/// # Errors
/// If no run has the metric; the message suggests known ones.
pub fn resolve(metric: &str, runs: &[Run]) -> Result<(&'static str, String)> {
    let plain = SPLITS.into_iter().find(|split| has(runs, split, metric));
    let prefixed = || {
        SPLITS.into_iter().find_map(|split| {
            let name = metric.strip_prefix(split)?.strip_prefix('_')?;
            has(runs, split, name).then(|| (split, name.to_string()))
        })
    };
    match plain
        .map(|split| (split, metric.to_string()))
        .or_else(prefixed)
    {
        Some(found) => Ok(found),
        // Runs that were not evaluated yet can still be compared by their settings.
        None if matches!(metric, "loss" | "valid_loss") => Ok(("valid", "loss".into())),
        None => Err(unknown(metric, runs)),
    }
}

fn has(runs: &[Run], split: &str, metric: &str) -> bool {
    let scored = |run: &Run| {
        run.scores
            .get(split)
            .is_some_and(|s| s.contains_key(metric))
    };
    runs.iter()
        .any(|r| !r.series(split, metric).is_empty() || scored(r))
}

fn unknown(metric: &str, runs: &[Run]) -> Error {
    let known: BTreeSet<&str> = runs
        .iter()
        .flat_map(|r| SPLITS.into_iter().flat_map(|s| r.journal.metrics(s)))
        .collect();
    Error::usage(format!(
        "--metric: no run has `{metric}`{}",
        suggestion(metric, known)
    ))
}

/// Returns the other metrics on the split: the defined ones first, in table order, then the rest by name.
pub fn others(metric: &str, split: &str, runs: &[Run]) -> Vec<String> {
    let journal = runs.iter().flat_map(|r| r.journal.metrics(split));
    let scores = runs
        .iter()
        .filter_map(|r| r.scores.get(split))
        .flat_map(|s| s.keys().map(String::as_str));
    let found: BTreeSet<&str> = journal
        .chain(scores)
        .filter(|m| *m != metric && !TIMING.contains(m))
        .collect();
    let mut found: Vec<&str> = found.into_iter().collect();
    found.sort_by_key(|m| rank(m).unwrap_or(usize::MAX));
    found.into_iter().map(str::to_string).collect()
}
