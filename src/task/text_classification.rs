//! Classes of whole texts, or of pairs of them, from an encoder's first position (Devlin et al. 2018, section 4).

use super::{Networks, Scored, Task, host};
use crate::data::batch::{Batch, TextBatch};
use crate::evaluate::metric::ACCURACY;
use crate::kernel;
use crate::model::encoder::{Encoder, EncoderConfig};
use crate::model::{ModelInputs, heads};
use crate::nn::Kind;
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Place, Roles, Says};
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
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

/// What the parameters of [`TextClassification`] are.
pub const ROLES: Roles = Roles::new("TextClassification", &[("head", Says::Stands(Place::Head))]);

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
}

fn labels(texts: &TextBatch) -> &[i32] {
    texts.labels.as_deref().unwrap_or_default()
}

impl Task for TextClassification {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let (texts, device) = (host::texts(batch), self.device());
        let labels = labels(texts);
        let scores = self.scores(texts, &device, pass);
        let hits = host::hits(&scores, labels);
        let confusion = (!pass.trains()).then(|| host::confusion(&scores, labels));
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let sum = kernel::cross_entropy_sum(scores, host::vector(labels, &device), smoothing);
        Scored {
            confusion,
            ..Scored::new(sum, batch.tokens as u64).with_metric(ACCURACY, hits)
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_classifier: Some(self),
            ..Networks::default()
        }
    }
}
