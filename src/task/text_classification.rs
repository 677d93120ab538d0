//! Classes of whole texts, or of pairs of them, from an encoder's first position (Devlin et al. 2018, section 4).

use super::output::{StepOutput, Sum};
use super::{Task, host};
use crate::data::batch::{Batch, TextBatch};
use crate::kernel;
use crate::model::encoder::{Encoder, EncoderConfig};
use crate::model::{ModelInputs, heads};
use crate::nn::Kind;
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "text_classification",
    summary: "classes of texts or of pairs of texts with an encoder",
    source: "Devlin et al. 2018, section 4",
    example: "{ kind = \"text_classification\" }",
};

/// The knobs of text classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TextClassificationConfig {
    /// Share of the probability that is spread over all classes.
    pub label_smoothing: f64,
    /// Dropout on the vector of a text before its classes.
    pub dropout: f64,
    /// What stands for a text.
    pub pooling: Pooling,
}

/// What stands for a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Its first position, through the model's pooler when it has one.
    #[default]
    First,
    /// The mean of its positions.
    Mean,
}

/// An encoder with classes of texts.
#[derive(Module, Debug)]
pub struct TextClassification {
    /// The network.
    pub model: Encoder,
    /// Scores of the classes.
    pub head: Linear,
    seed: u64,
    label_smoothing: f64,
    dropout: f64,
    #[module(skip)]
    pooling: Pooling,
}

impl TextClassification {
    /// A model of this config with a head for the data's classes.
    pub fn new(
        model: &EncoderConfig,
        config: &TextClassificationConfig,
        inputs: &ModelInputs,
    ) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, &model.stack.init);
        let classes = inputs.shape.classes.len();
        Self {
            model: model.init(inputs),
            head: Linear::new(model.stack.d_model, classes, true, Role::Head, &init),
            seed: inputs.seed,
            label_smoothing: config.label_smoothing,
            dropout: config.dropout,
            pooling: config.pooling,
        }
    }

    /// Scores of the classes `[rows, classes]`.
    pub fn scores(&self, texts: &TextBatch, device: &Device, pass: &Pass) -> Tensor<2> {
        let input = super::masked_lm::input(texts, device);
        let hidden = self.model.forward(input, pass);
        let [rows, cols, d] = hidden.dims();
        let pooled = match self.pooling {
            Pooling::First => self.model.pooled(hidden),
            Pooling::Mean => host::mean(hidden, texts.lengths.as_deref(), cols, device),
        };
        let pooled = pass.dropout(pooled.reshape([rows, 1, d]), "pooled", self.dropout);
        heads::classes(&self.head, pooled.reshape([rows, d]))
    }

    /// The device of its parameters.
    pub fn device(&self) -> Device {
        self.model.embedding.weight.val().device()
    }

    fn output(&self, batch: &Batch, texts: &TextBatch, scores: &Tensor<2>) -> StepOutput {
        let mut output = StepOutput {
            items: host::tokens(texts),
            ..StepOutput::default()
        };
        let labels = labels(texts);
        output
            .metrics
            .insert("accuracy", host::hits(scores, labels));
        output.loss.weight = batch.scored as f64;
        output
    }
}

fn labels(texts: &TextBatch) -> &[i32] {
    texts.labels.as_deref().unwrap_or_default()
}

impl TrainStep for TextClassification {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        let (texts, device) = (host::texts(&batch), self.device());
        let pass = host::training_pass(&batch, self.seed, Sample::default());
        let scores = self.scores(texts, &device, &pass);
        let mut output = self.output(&batch, texts, &scores);
        let targets = host::vector(labels(texts), &device);
        let sum = kernel::cross_entropy_sum(scores, targets, self.label_smoothing);
        output.loss = Sum::new(host::scalar(sum.clone().detach()), batch.scored as f64);
        let loss = sum / batch.step_scored.max(1) as f64;
        host::trained(self, loss, &pass, output)
    }
}

impl InferenceStep for TextClassification {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> StepOutput {
        let (texts, device) = (host::texts(&batch), self.device());
        let scores = self.scores(texts, &device, &Pass::evaluation());
        let mut output = self.output(&batch, texts, &scores);
        output.confusion = Some(host::confusion(&scores, labels(texts)));
        let sum = kernel::cross_entropy_sum(scores, host::vector(labels(texts), &device), 0.0);
        output.loss = Sum::new(host::scalar(sum), batch.scored as f64);
        output
    }
}

impl Task for TextClassification {}
