//! The keys of the text-embedding task.

use super::{KIND, TextEmbedding};
use crate::data::{DataSet, ExampleForm, Shape, Source, View};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, Metric, PEARSON, SPEARMAN};
use crate::evaluate::retrieval;
use crate::faults::TableFaults;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig, TextModel, Use};
use crate::nn::Kind;
use crate::task::AnyTask;
use crate::task::facts::{GlobalTokenSupport, TaskFacts};
use crate::task::whole_text::Pooling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default temperature: the divisor of cosines before the softmax, 1/20 as in sentence-transformers.
const TEMPERATURE: f64 = 0.05;
/// Lower bound of the temperature: below it, cosines in 32 bits cannot resolve the scores.
const LEAST_TEMPERATURE: f64 = 1e-3;
/// Maximum number of rows in a group.
const LARGEST_GROUP: usize = 1 << 20;

/// Loss of text embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingLoss {
    /// Each text of a pair must find the other one among those of all pairs in its group; equal texts of other pairs
    /// count as wrong: `data.kind = "pairs"`.
    #[default]
    InBatch,
    /// The cosine of two texts must match their score: `data.kind = "labelled_text"` with `pair` and `score`.
    Cosine,
}

/// Settings of text embeddings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TextEmbeddingConfig {
    /// The training loss.
    pub loss: EmbeddingLoss,
    /// Pooling of a text to one vector.
    pub pooling: Pooling,
    /// Whether embeddings are normalised to length 1 where they are used (`encode`, `infer`, exported folders); losses
    /// always compare directions.
    pub normalize: bool,
    /// Of `in_batch`: divisor of the cosines before the softmax. Default 0.05.
    #[schemars(range(min = 1e-3))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Of `in_batch`: whether second texts are also matched with first ones; the loss is the mean of both directions.
    pub symmetric: bool,
    /// Of `in_batch`: number of rows that are compared with each other, counted from a step's first row. Default: all
    /// rows of a step.
    #[schemars(range(min = 2))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    /// Of `cosine`: the score that corresponds to a cosine of 1; 5 for STS-B. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_score: Option<f64>,
    /// Tokens that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl Default for TextEmbeddingConfig {
    fn default() -> Self {
        Self {
            loss: EmbeddingLoss::default(),
            pooling: Pooling::default(),
            normalize: true,
            temperature: None,
            symmetric: false,
            group: None,
            top_score: None,
            global_tokens: None,
        }
    }
}

/// The loss with its parameters, defaults included.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedLoss {
    pub loss: EmbeddingLoss,
    pub temperature: f64,
    pub symmetric: bool,
    pub group: Option<usize>,
    pub top_score: f32,
}

impl TextEmbeddingConfig {
    pub(super) fn resolved_loss(&self) -> ResolvedLoss {
        ResolvedLoss {
            loss: self.loss,
            temperature: self.temperature.unwrap_or(TEMPERATURE),
            symmetric: self.symmetric,
            group: self.group,
            top_score: self.top_score.unwrap_or(1.0) as f32,
        }
    }

    /// Reports faults of keys that the loss does not read.
    fn idle_keys(&self, at: &mut TableFaults) {
        let (loss, keys) = match self.loss {
            EmbeddingLoss::InBatch => ("in_batch", vec![("top_score", self.top_score.is_some())]),
            EmbeddingLoss::Cosine => (
                "cosine",
                vec![
                    ("temperature", self.temperature.is_some()),
                    ("symmetric", self.symmetric),
                    ("group", self.group.is_some()),
                ],
            ),
        };
        for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
            let rule = format!("{key} has no effect with loss = \"{loss}\"; remove it");
            at.fault(&[key, "loss"], rule);
        }
    }
}

/// Checks `group` and reports faults.
pub(in crate::task) fn group_faults(group: Option<usize>, at: &mut TableFaults) {
    if at.count("group", group.unwrap_or(2), LARGEST_GROUP) && group == Some(1) {
        at.fault(
            &["group"],
            "group = 1 leaves no other pair to compare with; set 2 or more",
        );
    }
}

impl TaskFacts for TextEmbeddingConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        match self.loss {
            EmbeddingLoss::InBatch => ExampleForm::Pairs,
            EmbeddingLoss::Cosine => ExampleForm::Numbered,
        }
    }

    fn view(&self) -> View {
        match self.loss {
            EmbeddingLoss::InBatch => View::EncodedSeparately,
            EmbeddingLoss::Cosine => View::Plain,
        }
    }

    fn demand(&self) -> Demand {
        Demand {
            pooled_text: Pooling::demand(Some(self.pooling)),
            ..Demand::plain(Use::TextEmbeddings)
        }
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn faults(&self, at: &mut TableFaults) {
        self.idle_keys(at);
        let temperature = self.temperature.unwrap_or(1.0);
        if !(LEAST_TEMPERATURE..=f64::MAX).contains(&temperature) {
            let rule =
                format!("temperature = {temperature:?} must be at least {LEAST_TEMPERATURE}");
            at.fault(&["temperature"], rule);
        }
        at.positive("top_score", self.top_score.unwrap_or(1.0));
        group_faults(self.group, at);
        if self.global_tokens == Some(GlobalTokens::FirstSegment) {
            let rule = "global_tokens = \"first_segment\" makes every token global, since each text is read alone; use \"first\"";
            at.fault(&["global_tokens"], rule);
        }
    }

    fn compared_rows(&self) -> Option<Option<usize>> {
        match self.loss {
            EmbeddingLoss::InBatch => Some(self.group),
            EmbeddingLoss::Cosine => None,
        }
    }

    fn needs_two_texts(&self) -> bool {
        self.loss == EmbeddingLoss::Cosine
    }

    /// Reports too few pairs, or scores beyond the one that corresponds to a cosine of 1.
    fn data_fault(&self, train: &dyn Source) -> Result<Option<String>> {
        if self.loss != EmbeddingLoss::Cosine {
            let (pairs, least) = (train.len(), self.group.unwrap_or(2));
            return Ok((pairs < least).then(|| {
                format!("[data] has {pairs} pair(s) to train on, but each is compared with others: at least {least} are needed")
            }));
        }
        let mut largest = 0.0f32;
        for sample in 0..train.len() as u64 {
            let number = train.get(sample, 0)?.text().and_then(|text| text.number);
            largest = number.map_or(largest, |number| largest.max(number.abs()));
        }
        let top = self.top_score.unwrap_or(1.0);
        Ok((f64::from(largest) > top).then(|| {
            format!(
                "[task] top_score = {top} is the score of a cosine of 1, but the data has scores up to {largest}, which no \
                 cosine reaches; set top_score = {largest:?}"
            )
        }))
    }

    /// Returns the multiplications for both texts. Each is as long as the context with `in_batch`, and half as long
    /// with `cosine`, where both share a row.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        let context = match self.loss {
            EmbeddingLoss::InBatch => shape.context,
            EmbeddingLoss::Cosine => shape.context.div_ceil(2),
        };
        let alone = Shape {
            context,
            ..shape.clone()
        };
        2.0 * model.restricted_to(&demand).products(&demand, &alone)
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        match self.loss {
            EmbeddingLoss::InBatch => [&[ACCURACY], retrieval::METRICS].concat(),
            EmbeddingLoss::Cosine => vec![PEARSON, SPEARMAN],
        }
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork encode {run} FILE --out VECTORS.npy"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let model = model.restricted_to(&self.demand());
        let network = TextModel::new(&model, inputs);
        let task = network.map(|network| TextEmbedding::new(network, self, inputs));
        Ok(task.map(AnyTask::TextEmbedding))
    }
}
