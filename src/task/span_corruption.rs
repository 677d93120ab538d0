//! Span corruption: −log p(target | text with spans removed), with an encoder-decoder or a decoder. The target is each
//! sentinel followed by the tokens that it replaced (Raffel et al. 2019, section 3.1.4).
//!
//! The loss is that of the translation task; [`crate::data::corrupted::spans`] corrupts the texts.

use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use super::{AnyTask, TaskConfig, TranslationConfig};
use crate::data::corrupted::spans::SpanConfig;
use crate::data::{CorruptedView, DataSet, ExampleForm, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::model::{BuildContext, Demand, ModelConfig};
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "span_corruption",
    summary: "masked spans of a text, from text alone, with an encoder-decoder or a decoder",
    source: "Raffel et al. 2019 (T5); Xue et al. 2020 (mT5)",
    example: "{ kind = \"span_corruption\", share = 0.15, mean_span = 3.0 }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("accuracy", SPAN_KEYS)],
    ..MetricKeys::for_token_kind(KIND.kind).with_loss_keys(SPAN_KEYS)
};
const SPAN_KEYS: &[&str] = &["share", "mean_span"];

/// Settings of span corruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpanCorruptionConfig {
    /// Share of the tokens of a text that are removed. Source: Raffel et al. 2020, section 3.3.3.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 0.5))]
    pub share: f64,
    /// Mean length of a span in tokens. 1 removes single tokens; the maximum is the number of tokens removed from the
    /// longest text. Source: Raffel et al. 2020, section 3.3.4.
    #[schemars(range(min = 1))]
    pub mean_span: f64,
    /// Whether a decoder attends to the whole source from every position of the source; otherwise attention is causal.
    /// For decoders only: an encoder always does.
    pub bidirectional_source: bool,
}

impl Default for SpanCorruptionConfig {
    fn default() -> Self {
        let SpanConfig { share, mean_span } = SpanConfig::default();
        Self {
            share,
            mean_span,
            bidirectional_source: false,
        }
    }
}

impl SpanCorruptionConfig {
    fn spans(&self) -> SpanConfig {
        SpanConfig {
            share: self.share,
            mean_span: self.mean_span,
        }
    }

    /// Returns the text-to-text task that trains on the pairs of corrupted texts and targets.
    fn as_translation(&self) -> TranslationConfig {
        TranslationConfig {
            bidirectional_source: self.bidirectional_source,
            ..TranslationConfig::default()
        }
    }
}

impl TaskFacts for SpanCorruptionConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn view(&self) -> View {
        View::Corrupted(CorruptedView::Spans(self.spans()))
    }

    fn published_as(&self) -> Option<TaskConfig> {
        Some(TaskConfig::Translation(self.as_translation()))
    }

    fn demand(&self) -> Demand {
        self.as_translation().demand()
    }

    fn longest_written(&self, context: usize) -> Option<usize> {
        Some(self.spans().max_counts(context).target())
    }

    fn can_be_distilled(&self) -> bool {
        true
    }

    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric> {
        self.as_translation().metrics(data)
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        let text = prompt.map(|prompt| format!("{} <extra_id_0>", prompt.trim_end()));
        self.as_translation().command(run, text.as_deref())
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        self.as_translation().init(model, inputs, exact)
    }
}
