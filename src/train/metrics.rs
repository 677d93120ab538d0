//! Whether higher or lower values of a metric are better, for the metrics of all parts of the program.

use crate::evaluate::metric::{self, Metric};
use crate::task;

/// Metrics of every evaluation, for any task.
const OF_ALL: &[Metric] = &[metric::LOSS, metric::PERPLEXITY, metric::BITS_PER_BYTE];
/// Metrics of a run, not of its model.
const OF_RUNS: &[Metric] = &[Metric::higher("items_per_s"), Metric::higher("mfu")];

/// Returns the metrics of evaluations in the order in which tables show them: first those of all tasks, then those that
/// several tasks measure, then each task's own.
pub fn evaluation_metrics() -> impl Iterator<Item = &'static Metric> {
    let tables = [OF_ALL, metric::METRICS].into_iter();
    tables.chain(task::METRICS.iter().copied()).flatten()
}

/// Returns whether higher values of a metric are better. If a column's name ends with several metrics, the longest one
/// counts; an unknown metric is treated as a loss.
pub fn higher_is_better(column: &str) -> bool {
    let all = evaluation_metrics().chain(OF_RUNS);
    let meant = all.filter(|metric| metric.matches_column(column));
    let longest = meant.max_by_key(|metric| metric.name.len());
    longest.is_some_and(|metric| metric.higher_is_better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_all_parts_have_their_direction() {
        for metric in [
            "accuracy",
            "nsp_accuracy",
            "top5_accuracy",
            "valid_rouge_l",
            "f1",
            "mfu",
        ] {
            assert!(higher_is_better(metric), "{metric}");
        }
        for metric in [
            "loss",
            "sop_loss",
            "perplexity",
            "bits_per_byte",
            "ter",
            "wer",
            "",
        ] {
            assert!(!higher_is_better(metric), "{metric}");
        }
    }
}
