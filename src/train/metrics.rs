//! Which values of a metric are better, whichever part of the program measures it.

use crate::evaluate::metric::{self, Metric};
use crate::task;

/// Of every evaluation, whatever its task.
const OF_ALL: &[Metric] = &[metric::LOSS, metric::PERPLEXITY, metric::BITS_PER_BYTE];
/// Of a run, not of its model.
const OF_RUNS: &[Metric] = &[Metric::higher("items_per_s"), Metric::higher("mfu")];

/// The metrics of evaluations, those of all tasks first, then those that several measure, then each task's own: the order in
/// which tables show them.
pub fn of_evaluations() -> impl Iterator<Item = &'static Metric> {
    let tables = [OF_ALL, metric::METRICS].into_iter();
    tables.chain(task::METRICS.iter().copied()).flatten()
}

/// Whether more of a metric is better. Of several metrics that a column's name ends with, the longest is meant; what is
/// defined nowhere is taken for a loss.
pub fn higher_is_better(column: &str) -> bool {
    let all = of_evaluations().chain(OF_RUNS);
    let meant = all.filter(|metric| metric.is_meant_by(column));
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
