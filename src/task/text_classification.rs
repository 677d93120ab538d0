//! Text classification: classes of whole texts or of pairs of texts, from an encoder's first position (Devlin et al.
//! 2018, section 4). The texts of a pair are in one row or, with `towers`, read separately and compared by their
//! vectors.

use super::class_weights::{self, ClassWeights};
use super::distillation::Distillable;
use super::facts::{GlobalTokenSupport, TaskFacts};
use super::infer::InferenceTask;
use super::metric_keys::MetricKeys;
use super::whole_text::{Pooling, TextReading};
use super::{AnyTask, Networks, Scored, Task, host, towers};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, ExampleForm, Shape};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, F1, MCC, Metric};
use crate::evaluate::predictions::Predictions;
use crate::faults::TableFaults;
use crate::model::encoder::EncoderInput;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig, TextModel, Use, heads};
use crate::nn::Kind;
use crate::nn::init::{Init, InitSettings, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "text_classification",
    summary: "classes of texts or of pairs of texts with an encoder, a decoder or recurrent cells",
    source: "Devlin et al. 2018, section 4",
    example: "{ kind = \"text_classification\" }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys =
    MetricKeys::for_kind(KIND.kind).with_loss_keys(&["class_weights"]);

/// Settings of text classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TextClassificationConfig {
    /// Share of the probability that is spread over all classes. Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
    /// Weights of the classes in the loss, in training and in evaluations; all classes count alike when absent.
    /// Source: King and Zeng 2001, section 4.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
    /// Dropout on the pooled vector of a text before the head.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Whether the two texts of an example are read separately, by the same network, and compared.
    pub towers: bool,
    /// Pooling of a text to one vector; when absent, the first position of an encoder, or the last one of a decoder or
    /// of recurrent cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// Whether the head has a bias. Default: it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_bias: Option<bool>,
    /// Tokens that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl TaskFacts for TextClassificationConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Labelled
    }

    fn demand(&self) -> Demand {
        Demand {
            pooled_text: Pooling::demand(self.pooling),
            ..Demand::plain(Use::TextClasses)
        }
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn class_weights(&self) -> Option<&ClassWeights> {
        self.class_weights.as_ref()
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing);
        at.probability("dropout", self.dropout);
        if let Some(weights) = &self.class_weights {
            weights.faults(at);
        }
    }

    /// The hidden states of two texts that were read separately match no row of another network.
    fn can_be_distilled(&self) -> bool {
        !self.towers
    }

    fn has_towers(&self) -> bool {
        self.towers
    }

    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        if self.towers {
            towers::products(model, &demand, shape, shape.classes.len())
        } else {
            model.restricted_to(&demand).products(&demand, shape)
        }
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![ACCURACY, F1, MCC]
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork classify {run} --text TEXT"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let (model, init) = (model.restricted_to(&self.demand()), model.init_settings());
        let (d, network) = (model.d_output(), TextModel::new(&model, inputs));
        Ok(network.map(|network| {
            AnyTask::TextClassification(TextClassification::new(network, d, &init, self, inputs))
        }))
    }
}

/// Roles of the parameters of [`TextClassification`].
pub const ROLES: Roles = Roles::new(
    "TextClassification",
    &[("head", Declaration::Place(Place::Head))],
);

/// A text network with a classifier.
#[derive(Module, Debug)]
pub struct TextClassification {
    /// The network.
    pub model: TextModel,
    /// Classifier with a logit for each class, `[features, classes]`.
    pub head: Linear,
    seed: u64,
    label_smoothing: f64,
    #[module(skip)]
    pub(super) reading: TextReading,
}

impl TextClassification {
    /// Builds the task from a network of width `d_model`, with a head for the data's classes that is initialised as
    /// `init` says.
    pub fn new(
        model: TextModel,
        d_model: usize,
        init: &InitSettings,
        config: &TextClassificationConfig,
        inputs: &BuildContext,
    ) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, init);
        let classes = inputs.shape.classes.len();
        let reading = TextReading {
            towers: config.towers,
            pooling: config.pooling,
            globals: config.global_tokens.unwrap_or_default(),
            dropout: config.dropout,
        };
        Self {
            model,
            head: Linear::new(
                reading.width(d_model),
                classes,
                config.head_bias.unwrap_or(true),
                MatrixRole::Head,
                &init,
            ),
            seed: inputs.seed,
            label_smoothing: config.label_smoothing,
            reading,
        }
    }

    /// Returns the logits of the classes, `[rows, classes]`.
    pub fn scores(&self, texts: &TextBatch, device: &Device, pass: &Pass) -> Tensor<2> {
        self.scores_and_hidden(texts, device, pass).0
    }

    /// Returns the logits `[rows, classes]` and hidden states `[rows, cols, d_model]`; with towers, the hidden states
    /// of the first text.
    pub(super) fn scores_and_hidden(
        &self,
        texts: &TextBatch,
        device: &Device,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let (vectors, hidden) = self.reading.vectors(&self.model, texts, device, pass);
        (heads::class_scores(&self.head, vectors), hidden)
    }

    /// Returns the logits and hidden states for an input of single texts.
    pub(super) fn scores_and_hidden_of(
        &self,
        input: EncoderInput,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let (vectors, hidden) = self.reading.vectors_of(&self.model, input, pass);
        (heads::class_scores(&self.head, vectors), hidden)
    }

    /// Returns the loss for the logits of a batch's rows, and the metrics.
    pub(super) fn scored(&self, scores: Tensor<2>, batch: &Batch, pass: &Pass) -> Scored {
        let labels = labels(host::texts(batch));
        let hits = host::count_hits(&scores, labels);
        let confusion = (!pass.is_training()).then(|| host::confusion(&scores, labels));
        let predictions = confusion.map(Predictions::Classes);
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let loss = class_weights::weighted_loss(scores, labels, smoothing, batch);
        Scored {
            predictions,
            ..Scored::of(loss, batch.tokens as u64).with_count(ACCURACY, hits)
        }
    }

    /// Returns the pooling of a text to one vector.
    pub fn pooling(&self) -> Pooling {
        self.reading.pooling(&self.model)
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }
}

fn labels(texts: &TextBatch) -> &[i32] {
    texts.labels.as_deref().unwrap_or_default()
}

impl Task for TextClassification {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let scores = self.scores(host::texts(batch), &self.device(), pass);
        self.scored(scores, batch, pass)
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        (!self.reading.towers).then_some(self as &dyn Distillable)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_classifier: Some(self),
            // Arrays of whole rows do not tell where a second text begins.
            infers: (!self.reading.towers).then_some(self as &dyn InferenceTask),
            reads: Some(self),
            ..Networks::default()
        }
    }
}
