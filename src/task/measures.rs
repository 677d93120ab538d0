//! Which keys of an experiment define what the evaluations of a kind of task measure: values of runs that differ in them are
//! in other units, or of other targets, and no test of what else differs. Each kind says its own, in its own file.
//!
//! Keys that act in training alone are not among them: evaluations leave out label smoothing, the auxiliary losses of
//! next-token prediction, a choice of scored positions and everything that comes from a teacher.

use super::distillation;

/// The keys that define the values of a kind of task, below `task` unless they begin with `data.` or `decode.`; a table
/// stands for all of its keys.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// The kind.
    pub kind: &'static str,
    /// Keys that define its loss and its perplexity.
    pub loss: &'static [&'static str],
    /// Keys that define other metrics.
    pub metrics: &'static [(&'static str, &'static [&'static str])],
    /// Whether its loss is a mean over tokens, so that it depends on how texts are cut into them.
    pub over_tokens: bool,
    /// The values of `loss` with which it compares the rows of a step with each other: `group` of them, or all.
    pub compares_rows: &'static [&'static str],
}

impl Measures {
    /// Those of a kind whose loss is the same whatever its keys.
    pub const fn of(kind: &'static str) -> Self {
        Self {
            kind,
            loss: &[],
            metrics: &[],
            over_tokens: false,
            compares_rows: &[],
        }
    }

    /// Those of a kind whose loss is a mean over tokens.
    pub const fn of_tokens(kind: &'static str) -> Self {
        Self {
            over_tokens: true,
            ..Self::of(kind)
        }
    }

    /// The same with keys that define the loss.
    #[must_use]
    pub const fn by(self, loss: &'static [&'static str]) -> Self {
        Self { loss, ..self }
    }

    /// The keys that define a metric; `None` where none does, not even the kind.
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

/// Whether a metric is the loss of a task, or made of it.
pub fn is_loss(metric: &str) -> bool {
    ["loss", "perplexity"].contains(&metric)
}

/// Whether a metric of a task whose loss is a mean over tokens is made of single tokens, too.
pub fn is_by_token(metric: &str) -> bool {
    is_loss(metric) || ["accuracy", "bits_per_byte"].contains(&metric)
}

/// Every kind of task. The loss of distillation is that of the task which is learned.
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

/// Those of a kind; `None` of one that is not known.
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
