//! Names of metrics, and whether higher or lower values are better. The choice of a run's best evaluation and the
//! reports use the same definition.
//!
//! A metric is defined once, in the table of the part that measures it: metrics of texts and classes are here, those of
//! a task in the task's file.

/// A number that is measured of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric in journals and scores.
    pub name: &'static str,
    /// Whether higher values are better.
    pub higher_is_better: bool,
}

impl Metric {
    /// Returns a metric whose higher values are better.
    pub const fn higher(name: &'static str) -> Self {
        Self {
            name,
            higher_is_better: true,
        }
    }

    /// Returns a metric whose lower values are better.
    pub const fn lower(name: &'static str) -> Self {
        Self {
            name,
            higher_is_better: false,
        }
    }

    /// Returns whether a column of a journal or a report holds this metric: its name, alone or after a prefix, as in
    /// `test_accuracy`.
    pub fn matches_column(&self, column: &str) -> bool {
        let before = column.strip_suffix(self.name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
    }
}

/// Mean loss in nats over scored positions or rows.
pub const LOSS: Metric = Metric::lower("loss");
/// exp(loss): the effective number of tokens between which a model is undecided.
pub const PERPLEXITY: Metric = Metric::lower("perplexity");
/// Loss in bits per byte of text.
pub const BITS_PER_BYTE: Metric = Metric::lower("bits_per_byte");
/// Harmonic mean of precision and recall.
pub const F1: Metric = Metric::higher("f1");
/// F1 from the summed counts of all classes.
pub const MICRO_F1: Metric = Metric::higher("micro_f1");
/// Mean of the F1 scores of all classes.
pub const MACRO_F1: Metric = Metric::higher("macro_f1");
/// Mean area under the ROC curve over all classes.
pub const ROC_AUC: Metric = Metric::higher("roc_auc");
/// Matthews correlation of classes.
pub const MCC: Metric = Metric::higher("mcc");
/// Share of the predictions that are right.
pub const PRECISION: Metric = Metric::higher("precision");
/// Share of the true ones that were predicted.
pub const RECALL: Metric = Metric::higher("recall");
/// Pearson's correlation between predicted and true numbers.
pub const PEARSON: Metric = Metric::higher("pearson");
/// Spearman's rank correlation between predicted and true numbers.
pub const SPEARMAN: Metric = Metric::higher("spearman");
/// Share of right answers.
pub const ACCURACY: Metric = Metric::higher("accuracy");
/// Share of rows that are entirely right.
pub const EXACT_MATCH: Metric = Metric::higher("exact_match");

/// Metrics of texts against references, of classes and of numbers.
pub const METRICS: &[Metric] = &[
    ACCURACY,
    EXACT_MATCH,
    PRECISION,
    RECALL,
    F1,
    MICRO_F1,
    MACRO_F1,
    ROC_AUC,
    MCC,
    PEARSON,
    SPEARMAN,
    Metric::higher("bleu"),
    Metric::higher("chrf"),
    Metric::lower("ter"),
    Metric::lower("wer"),
    Metric::lower("cer"),
    Metric::higher("rouge_1"),
    Metric::higher("rouge_2"),
    Metric::higher("rouge_l"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_of_the_metric_that_they_end_with() {
        for column in ["accuracy", "test_accuracy", "valid_mlm_accuracy"] {
            assert!(ACCURACY.matches_column(column), "{column}");
        }
        for column in ["inaccuracy", "accuracy_gap", "", "_"] {
            assert!(!ACCURACY.matches_column(column), "{column}");
        }
    }
}
