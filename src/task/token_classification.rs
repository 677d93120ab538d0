//! Token classification: tags of the words of a text, from the hidden states of their first tokens (Devlin et al. 2018,
//! section 5.3).

use super::class_weights::{self, ClassWeights};
use super::facts::{GlobalTokenSupport, TaskFacts};
use super::infer::InferenceTask;
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, Scored, Task, host, masked_lm};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, ExampleForm, NOT_SCORED};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, F1, MCC, Metric, PRECISION, RECALL};
use crate::evaluate::predictions::Predictions;
use crate::evaluate::tags::TagCounts;
use crate::faults::TableFaults;
use crate::kernel;
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
    kind: "token_classification",
    summary: "tags of words with an encoder, a decoder or recurrent cells: entities, parts of speech",
    source: "Devlin et al. 2018, section 5.3; entities as in Tjong Kim Sang and De Meulder 2003",
    example: "{ kind = \"token_classification\" }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys =
    MetricKeys::for_kind(KIND.kind).with_loss_keys(&["class_weights"]);

/// Settings of token classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenClassificationConfig {
    /// Share of the probability that is spread over all tags. Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
    /// Weights of the classes in the loss, in training and in evaluations; all classes count alike when absent.
    /// Source: King and Zeng 2001, section 4.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
    /// Dropout on the hidden states before the head.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Tokens that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl TaskFacts for TokenClassificationConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Tagged
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::TokenClasses)
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

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        // Precision and recall are reported for entities, Matthews' correlation for other tags.
        vec![ACCURACY, PRECISION, RECALL, F1, MCC]
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
            AnyTask::TokenClassification(TokenClassification::new(network, d, &init, self, inputs))
        }))
    }
}

/// Roles of the parameters of [`TokenClassification`].
pub const ROLES: Roles = Roles::new(
    "TokenClassification",
    &[("head", Declaration::Place(Place::Head))],
);

/// A text network that predicts a tag for each token.
#[derive(Module, Debug)]
pub struct TokenClassification {
    /// The network.
    pub model: TextModel,
    /// Head with a logit for each tag, `[d_model, tags]`.
    pub head: Linear,
    seed: u64,
    label_smoothing: f64,
    dropout: f64,
    #[module(skip)]
    pub(super) globals: GlobalTokens,
    #[module(skip)]
    tags: Vec<String>,
}

impl TokenClassification {
    /// Builds the task from a network of width `d_model`, with a head for the data's tags that is initialised as `init`
    /// says.
    pub fn new(
        model: TextModel,
        d_model: usize,
        init: &InitSettings,
        config: &TokenClassificationConfig,
        inputs: &BuildContext,
    ) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, init);
        let tags = inputs.shape.classes.clone();
        Self {
            model,
            head: Linear::new(d_model, tags.len(), true, MatrixRole::Head, &init),
            seed: inputs.seed,
            label_smoothing: config.label_smoothing,
            dropout: config.dropout,
            globals: config.global_tokens.unwrap_or_default(),
            tags,
        }
    }

    /// Returns the logits of the tags at some positions, `[positions, tags]`; positions are counted through all rows.
    pub fn scores(&self, texts: &TextBatch, positions: &[i32], pass: &Pass) -> Tensor<2> {
        let device = self.device();
        let hidden = self.hidden(masked_lm::input(texts, self.globals, &device), pass);
        let d = hidden.dims()[2];
        let hidden = host::gather_at(hidden, positions, &device);
        heads::class_scores(&self.head, hidden.reshape([positions.len(), d]))
    }

    /// Returns the logits of the tags at every position, `[rows, cols, tags]`.
    pub(super) fn all_scores(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        self.head.forward(self.hidden(input, pass))
    }

    fn hidden(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let hidden = self.model.forward(input, pass);
        let hidden = self.model.token_features(hidden);
        pass.dropout(hidden, "tagged", self.dropout)
    }

    /// Returns predicted and true tags at each row's scored positions, from their logits.
    fn predictions(&self, scores: Tensor<2>, places: &[i32], texts: &TextBatch) -> Predictions {
        let best = kernel::read(kernel::untracked(scores).argmax(1));
        let best = best.iter::<i64>().map(|tag| tag as usize);
        let mut tags = TagCounts::new(self.tags.clone());
        let row = |place: i32| place as usize / texts.cols.max(1);
        let scored: Vec<(i32, usize)> = places.iter().copied().zip(best).collect();
        for words in scored.chunk_by(|a, b| row(a.0) == row(b.0)) {
            let truth = words
                .iter()
                .map(|(place, _)| texts.targets[*place as usize]);
            // A batch without scored positions has one placeholder position.
            let (truth, found): (Vec<usize>, Vec<usize>) = truth
                .zip(words)
                .filter(|(tag, _)| *tag != NOT_SCORED)
                .map(|(tag, (_, found))| (tag as usize, *found))
                .unzip();
            tags.add(&truth, &found);
        }
        Predictions::Tags(tags)
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }
}

impl Task for TokenClassification {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let (places, targets) = host::scored_targets(&texts.targets);
        let scores = self.scores(texts, &places, pass);
        let predictions =
            (!pass.is_training()).then(|| self.predictions(scores.clone(), &places, texts));
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let loss = class_weights::weighted_loss(scores, &targets, smoothing, batch);
        Scored {
            predictions,
            ..Scored::of(loss, batch.tokens as u64)
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            token_classifier: Some(self),
            infers: Some(self as &dyn InferenceTask),
            ..Networks::default()
        }
    }
}
