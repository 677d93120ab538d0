//! Span corruption: −log p(target) of a text with spans missing, with an encoder-decoder or a decoder; the target is each
//! sentinel with the tokens that stood in its place (Raffel et al. 2019, section 3.1.4).
//!
//! The loss is that of text to text; what is corrupted, and how, is [`crate::data::corrupted::spans`].

use super::facts::TaskFacts;
use super::measures::Measures;
use super::{AnyTask, TaskConfig, TranslationConfig};
use crate::data::corrupted::spans::SpanConfig;
use crate::data::{CorruptedView, DataSet, Gives, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::model::{Demand, ModelConfig, ModelInputs};
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "span_corruption",
    summary: "the spans that a text lacks, from text alone, with an encoder-decoder or a decoder",
    source: "Raffel et al. 2019 (T5); Xue et al. 2020 (mT5)",
    example: "{ kind = \"span_corruption\", share = 0.15, mean_span = 3.0 }",
};

/// The keys that define the values of its evaluations.
pub const MEASURES: Measures = Measures {
    metrics: &[("accuracy", TAKEN_OUT)],
    ..Measures::of_tokens(KIND.kind).by(TAKEN_OUT)
};
const TAKEN_OUT: &[&str] = &["share", "mean_span"];

/// The knobs of span corruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpanCorruptionConfig {
    /// Share of the tokens of a text that are taken out. Source: Raffel et al. 2020, section 3.3.3.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 0.5))]
    pub share: f64,
    /// Mean tokens of a span; 1 takes single tokens out, and the most is all that is taken out of the longest text.
    /// Source: Raffel et al. 2020, section 3.3.4.
    #[schemars(range(min = 1))]
    pub mean_span: f64,
    /// Whether a decoder sees all of the source from every position of it; a causal mask everywhere otherwise.
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

    /// The task of text to text that its pairs are learned by.
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

    fn reads(&self) -> Gives {
        Gives::Text
    }

    fn view(&self) -> View {
        View::Corrupted(CorruptedView::Spans(self.spans()))
    }

    fn elsewhere(&self) -> Option<TaskConfig> {
        Some(TaskConfig::Translation(self.as_translation()))
    }

    fn demand(&self) -> Demand {
        self.as_translation().demand()
    }

    fn written(&self, context: usize) -> Option<usize> {
        Some(self.spans().filling(context).target())
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
        inputs: &ModelInputs,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        self.as_translation().init(model, inputs, exact)
    }
}
