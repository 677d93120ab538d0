//! The keys of an experiment that define what evaluations of each kind of task measure. If runs differ in such a key,
//! their values are in other units or of other targets and do not compare anything else. Each kind states its keys in
//! its own file.
//!
//! Keys that only act in training are not among them: evaluations leave out label smoothing, the auxiliary losses of
//! next-token prediction, a choice of scored positions and everything that comes from a teacher.

use super::distillation;

/// Keys that define the evaluation values of a kind of task. They are below `task` unless they begin with `data.`,
/// `decode.` or `model.`; a table stands for all of its keys.
#[derive(Clone, Copy, Debug)]
pub struct MetricKeys {
    /// Name of the kind.
    pub kind: &'static str,
    /// Keys that define the loss and the perplexity.
    pub loss: &'static [&'static str],
    /// Keys that define other metrics.
    pub metrics: &'static [(&'static str, &'static [&'static str])],
    /// Whether the loss is a mean over tokens, so that it depends on the tokenization.
    pub over_tokens: bool,
    /// Values of the key `loss` with which the loss compares the rows of a step with each other, in groups of `group`
    /// rows or all rows.
    pub compares_rows: &'static [&'static str],
}

impl MetricKeys {
    /// Measures of a kind whose loss depends on no keys.
    pub const fn for_kind(kind: &'static str) -> Self {
        Self {
            kind,
            loss: &[],
            metrics: &[],
            over_tokens: false,
            compares_rows: &[],
        }
    }

    /// Measures of a kind whose loss is a mean over tokens.
    pub const fn for_token_kind(kind: &'static str) -> Self {
        Self {
            over_tokens: true,
            ..Self::for_kind(kind)
        }
    }

    /// Returns the measures with keys that define the loss.
    #[must_use]
    pub const fn with_loss_keys(self, loss: &'static [&'static str]) -> Self {
        Self { loss, ..self }
    }

    /// Returns the keys that define a metric; `None` if nothing defines it, not even the kind.
    pub fn keys(&self, metric: &str) -> Option<&'static [&'static str]> {
        if is_loss(metric) {
            return Some(self.loss);
        }
        let mut metrics = self.metrics.iter();
        metrics
            .find(|(name, _)| *name == metric)
            .map(|(_, keys)| *keys)
    }
}

/// Returns whether a metric is the loss of a task, or computed from it.
pub fn is_loss(metric: &str) -> bool {
    ["loss", "perplexity"].contains(&metric)
}

/// Returns whether a metric of a task whose loss is a mean over tokens is itself computed per token.
pub fn is_per_token(metric: &str) -> bool {
    is_loss(metric) || ["accuracy", "bits_per_byte"].contains(&metric)
}

/// Measures of every kind of task. The loss of distillation is that of the distilled task.
pub const ALL: &[MetricKeys] = &[
    super::causal_lm::METRIC_KEYS,
    super::masked_lm::METRIC_KEYS,
    super::translation::METRIC_KEYS,
    super::text_classification::METRIC_KEYS,
    super::multi_label::METRIC_KEYS,
    super::token_classification::METRIC_KEYS,
    super::regression::METRIC_KEYS,
    super::text_embedding::METRIC_KEYS,
    super::question_answering::METRIC_KEYS,
    super::image_classification::METRIC_KEYS,
    super::masked_image::METRIC_KEYS,
    super::self_distillation::METRIC_KEYS,
    super::image_text::METRIC_KEYS,
    super::captioning::METRIC_KEYS,
    super::transcription::METRIC_KEYS,
    super::ctc::METRIC_KEYS,
    super::contrastive_speech::METRIC_KEYS,
    distillation::METRIC_KEYS,
    super::preference::METRIC_KEYS,
    super::reward::METRIC_KEYS,
    super::grpo::METRIC_KEYS,
    super::span_corruption::METRIC_KEYS,
    super::denoising::METRIC_KEYS,
    super::replaced_token::METRIC_KEYS,
    super::permuted_lm::METRIC_KEYS,
];

/// Measures of a kind; `None` if the kind is unknown.
pub fn find_by_kind(kind: &str) -> Option<&'static MetricKeys> {
    ALL.iter().find(|measures| measures.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_says_its_own() {
        let kinds: Vec<&str> = crate::task::KINDS.iter().map(|kind| kind.kind).collect();
        assert_eq!(ALL.len(), kinds.len());
        for kind in kinds {
            assert!(find_by_kind(kind).is_some(), "{kind}");
        }
    }

    #[test]
    fn what_is_right_about_hidden_tokens_is_of_those_that_are_hidden() {
        for kind in ["masked_lm", "replaced_token"] {
            let keys = find_by_kind(kind).unwrap().keys("mlm_accuracy").unwrap();
            assert!(keys.contains(&"masking"), "{kind}");
        }
        for kind in ["span_corruption", "denoising"] {
            let measures = find_by_kind(kind).unwrap();
            assert_eq!(measures.keys("accuracy"), measures.keys("loss"), "{kind}");
        }
    }

    #[test]
    fn a_reward_is_in_units_of_beta_and_an_accuracy_is_not() {
        let preference = find_by_kind("preference").unwrap();
        assert!(preference.keys("reward_margin").unwrap().contains(&"beta"));
        assert!(preference.keys("reward_accuracy").is_none());
        assert!(preference.keys("perplexity").unwrap().contains(&"loss"));
    }
}
