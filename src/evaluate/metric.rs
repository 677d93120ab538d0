//! What a metric is called and which of its values are better: what chooses a run's best evaluation and what a report
//! calls better are the same.
//!
//! A metric is defined once, in the table of the part that measures it: those of texts and classes here, those of a task
//! in the task's file.

/// A number that is written down of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in journals and scores.
    pub name: &'static str,
    /// Whether more of it is better.
    pub higher_is_better: bool,
}

impl Metric {
    /// One of which more is better.
    pub const fn higher(name: &'static str) -> Self {
        Self {
            name,
            higher_is_better: true,
        }
    }

    /// One of which less is better.
    pub const fn lower(name: &'static str) -> Self {
        Self {
            name,
            higher_is_better: false,
        }
    }

    /// Whether a column of a journal or a report is about it: its name, alone or after a split's, `test_accuracy`.
    pub fn is_meant_by(&self, column: &str) -> bool {
        let before = column.strip_suffix(self.name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
    }
}

/// Mean loss in nats of what is scored.
pub const LOSS: Metric = Metric::lower("loss");
/// e to the loss: the tokens between which a model hesitates.
pub const PERPLEXITY: Metric = Metric::lower("perplexity");
/// The loss in bits for each byte of text.
pub const BITS_PER_BYTE: Metric = Metric::lower("bits_per_byte");
/// Harmonic mean of precision and recall.
pub const F1: Metric = Metric::higher("f1");
/// F1 of the counts of all classes, added up.
pub const MICRO_F1: Metric = Metric::higher("micro_f1");
/// Mean of the F1 of all classes.
pub const MACRO_F1: Metric = Metric::higher("macro_f1");
/// Mean area under the ROC curve of all classes.
pub const ROC_AUC: Metric = Metric::higher("roc_auc");
/// Matthews correlation of classes.
pub const MCC: Metric = Metric::higher("mcc");
/// Share of what was predicted that is right.
pub const PRECISION: Metric = Metric::higher("precision");
/// Share of what is true that was predicted.
pub const RECALL: Metric = Metric::higher("recall");
/// Pearson's correlation of numbers.
pub const PEARSON: Metric = Metric::higher("pearson");
/// Spearman's correlation of ranks.
pub const SPEARMAN: Metric = Metric::higher("spearman");
/// Share of right answers.
pub const ACCURACY: Metric = Metric::higher("accuracy");
/// Share of rows that are right as a whole.
pub const EXACT_MATCH: Metric = Metric::higher("exact_match");

/// Of texts against references, of classes and of numbers.
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
            assert!(ACCURACY.is_meant_by(column), "{column}");
        }
        for column in ["inaccuracy", "accuracy_gap", "", "_"] {
            assert!(!ACCURACY.is_meant_by(column), "{column}");
        }
    }
}
