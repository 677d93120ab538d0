//! The keys of an experiment that define what evaluations of each kind of task measure. If runs differ in such a key,
//! their values are in other units or of other targets and do not compare anything else. Each kind states its keys in
//! its own file.
//!
//! Keys that only act in training are not among them: evaluations leave out label smoothing, the auxiliary losses of
//! next-token prediction, a choice of scored positions and everything that comes from a teacher.

use super::distillation;

/// Keys that define the evaluation values of a kind of task. They are below `task` unless they begin with `data.` or
/// `decode.`; a table stands for all of its keys.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
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

impl Measures {
    /// Measures of a kind whose loss depends on no keys.
    pub const fn of(kind: &'static str) -> Self {
        Self {
            kind,
            loss: &[],
            metrics: &[],
            over_tokens: false,
            compares_rows: &[],
        }
    }

    /// Measures of a kind whose loss is a mean over tokens.
    pub const fn of_tokens(kind: &'static str) -> Self {
        Self {
            over_tokens: true,
            ..Self::of(kind)
        }
    }

    /// Returns the measures with keys that define the loss.
    #[must_use]
    pub const fn by(self, loss: &'static [&'static str]) -> Self {
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
pub fn is_by_token(metric: &str) -> bool {
    is_loss(metric) || ["accuracy", "bits_per_byte"].contains(&metric)
}

/// Measures of every kind of task. The loss of distillation is that of the distilled task.
pub const ALL: &[Measures] = &[
    super::causal_lm::MEASURES,
    super::masked_lm::MEASURES,
    super::translation::MEASURES,
    super::text_classification::MEASURES,
    super::multi_label::MEASURES,
    super::token_classification::MEASURES,
    super::regression::MEASURES,
    super::text_embedding::MEASURES,
    super::question_answering::MEASURES,
    super::image_classification::MEASURES,
    super::masked_image::MEASURES,
    super::self_distillation::MEASURES,
    super::image_text::MEASURES,
    super::captioning::MEASURES,
    super::transcription::MEASURES,
    super::ctc::MEASURES,
    distillation::MEASURES,
    super::preference::MEASURES,
    super::reward::MEASURES,
    super::grpo::MEASURES,
    super::span_corruption::MEASURES,
    super::denoising::MEASURES,
    super::replaced_token::MEASURES,
    super::permuted_lm::MEASURES,
];

/// Measures of a kind; `None` if the kind is unknown.
pub fn of_kind(kind: &str) -> Option<&'static Measures> {
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
            assert!(of_kind(kind).is_some(), "{kind}");
        }
    }

    #[test]
    fn what_is_right_about_hidden_tokens_is_of_those_that_are_hidden() {
        for kind in ["masked_lm", "replaced_token"] {
            let keys = of_kind(kind).unwrap().keys("mlm_accuracy").unwrap();
            assert!(keys.contains(&"masking"), "{kind}");
        }
        for kind in ["span_corruption", "denoising"] {
            let measures = of_kind(kind).unwrap();
            assert_eq!(measures.keys("accuracy"), measures.keys("loss"), "{kind}");
        }
    }

    #[test]
    fn a_reward_is_in_units_of_beta_and_an_accuracy_is_not() {
        let preference = of_kind("preference").unwrap();
        assert!(preference.keys("reward_margin").unwrap().contains(&"beta"));
        assert!(preference.keys("reward_accuracy").is_none());
        assert!(preference.keys("perplexity").unwrap().contains(&"loss"));
    }
}
