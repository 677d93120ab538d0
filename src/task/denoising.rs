//! Denoising: −log p(text | text with noise), with an encoder-decoder or a decoder (Lewis et al. 2019, section 2).
//!
//! The loss is that of the translation task; [`crate::data::corrupted::denoising`] makes the noise.

use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use super::{AnyTask, TaskConfig, TranslationConfig};
use crate::data::corrupted::denoising::NoiseConfig;
use crate::data::{CorruptedView, DataSet, ExampleForm, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::model::{BuildContext, Demand, ModelConfig};
use crate::nn::Kind;
use crate::tokenizer::USER_MASK;

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "denoising",
    summary: "original text from a corrupted one (masks, spans, deletion, sentence order, rotation), from text alone",
    source: "Lewis et al. 2019 (BART)",
    example: "{ kind = \"denoising\", infill = 0.3, permute_sentences = 1.0 }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("accuracy", NOISES)],
    ..MetricKeys::for_token_kind(KIND.kind).with_loss_keys(NOISES)
};
const NOISES: &[&str] = &[
    "permute_sentences",
    "infill",
    "mean_span",
    "mask",
    "random",
    "delete",
    "rotate",
];

/// Returns the text-to-text task that trains on the pairs of noisy and clean texts.
fn as_translation() -> TranslationConfig {
    TranslationConfig::default()
}

impl TaskFacts for NoiseConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn view(&self) -> View {
        View::Corrupted(CorruptedView::Denoising(self.clone()))
    }

    fn published_as(&self) -> Option<TaskConfig> {
        Some(TaskConfig::Translation(as_translation()))
    }

    fn demand(&self) -> Demand {
        as_translation().demand()
    }

    fn longest_written(&self, context: usize) -> Option<usize> {
        Some(context)
    }

    fn can_be_distilled(&self) -> bool {
        true
    }

    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric> {
        as_translation().metrics(data)
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        let text = prompt.map(|prompt| format!("{} {USER_MASK}", prompt.trim_end()));
        as_translation().command(run, text.as_deref())
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        as_translation().init(model, inputs, exact)
    }
}
