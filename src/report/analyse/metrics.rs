//! Metrics by name: which one is compared and on which split, which of its values are better, which others are shown.

use std::collections::BTreeSet;

use super::statistics::Direction;
use crate::error::{Error, Result, suggestion};
use crate::report::read::run::Run;
pub use crate::train::metrics::higher_is_better as more_is_better;

/// Metrics that stand in the table when evaluations have them, in this order.
pub const SHOWN: [&str; 23] = [
    "loss",
    "perplexity",
    "bits_per_byte",
    "accuracy",
    "exact_match",
    "top5_accuracy",
    "precision",
    "recall",
    "f1",
    "mcc",
    "pearson",
    "spearman",
    "bleu",
    "chrf",
    "ter",
    "wer",
    "cer",
    "rouge_1",
    "rouge_2",
    "rouge_l",
    "mlm_accuracy",
    "nsp_accuracy",
    "sop_accuracy",
];
/// Numbers of a journal line that measure the run, not the model.
const TIMING: [&str; 4] = ["elapsed_s", "items_per_s", "items", "memory_mb"];
/// The splits, the one to compare on first.
pub const SPLITS: [&str; 3] = ["valid", "test", "train"];

/// Which values of a metric are better.
pub fn better(metric: &str) -> Direction {
    match more_is_better(metric) {
        true => Direction::Higher,
        false => Direction::Lower,
    }
}

/// The split and the name of a metric: the first split on which any run has it; `test_accuracy` is the accuracy on
/// the test split.
///
/// # Errors
/// A metric that no run has; the message names the nearest that is there.
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
        // Runs without an evaluation yet are still worth a look at their settings.
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

/// The other metrics on the split: the usual ones first, then the rest by name.
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
    found.sort_by_key(|m| SHOWN.iter().position(|s| s == m).unwrap_or(SHOWN.len()));
    found.into_iter().map(str::to_string).collect()
}
