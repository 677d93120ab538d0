//! Which values of a metric are better, by its name: what chooses a run's best evaluation and what a report calls
//! better are the same.

/// Metrics that are better when they are higher.
const HIGHER: [&str; 13] = [
    "accuracy",
    "exact_match",
    "precision",
    "recall",
    "f1",
    "mcc",
    "bleu",
    "chrf",
    "rouge_1",
    "rouge_2",
    "rouge_l",
    "items_per_s",
    "mfu",
];

/// Whether more of a metric is better. A name that ends with `_` and that of a metric is of its kind:
/// `mlm_accuracy`, `valid_bleu`. Every other name is taken for that of a loss: `loss`, `perplexity`, `bits_per_byte`,
/// `ter`, and every unknown name.
pub fn higher_is_better(metric: &str) -> bool {
    let is_of_kind = |kind: &&str| {
        let before = metric.strip_suffix(*kind);
        before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
    };
    HIGHER.iter().any(is_of_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_of_the_kind_that_their_names_end_with() {
        for metric in ["accuracy", "nsp_accuracy", "top5_accuracy", "rouge_l", "f1"] {
            assert!(higher_is_better(metric), "{metric}");
        }
        for metric in ["loss", "sop_loss", "perplexity", "bits_per_byte", "ter"] {
            assert!(!higher_is_better(metric), "{metric}");
        }
        for metric in ["inaccuracy", "accuracy_gap", "", "_", "wer"] {
            assert!(!higher_is_better(metric), "{metric}");
        }
    }
}
