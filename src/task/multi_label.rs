//! Multi-label classification of whole texts or of pairs of texts: each class is present or absent independently of the
//! others (toxic comments, emotions).
//!
//! The pooled vector of a text, as in `text_classification`, gives a logit for each class. The loss is the binary
//! cross-entropy of each logit against whether the text has the class, averaged over the classes, as Hugging Face's
//! models compute it for `problem_type = "multi_label_classification"`.

use super::facts::{GlobalTokenSupport, TaskFacts};
use super::metric_keys::MetricKeys;
use super::replaced_token::binary;
use super::whole_text::{Pooling, TextReading};
use super::{AnyTask, Networks, Scored, Task, class_weights, host};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, ExampleForm};
use crate::error::Result;
use crate::evaluate::metric::{EXACT_MATCH, MACRO_F1, MICRO_F1, Metric, ROC_AUC};
use crate::evaluate::multi_label::MultiLabelScores;
use crate::evaluate::predictions::Predictions;
use crate::faults::TableFaults;
use crate::kernel::{self, replay};
use crate::model::encoder::EncoderInput;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig, TextModel, Use, heads};
use crate::nn::Kind;
use crate::nn::init::{Init, InitSettings, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "multi_label_classification",
    summary: "any number of classes of texts or of pairs of texts with an encoder, a decoder or recurrent cells",
    source: "Tsoumakas and Katakis 2007; Demszky et al., arXiv:2005.00547 (GoEmotions)",
    example: "{ kind = \"multi_label_classification\" }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys =
    MetricKeys::for_kind(KIND.kind).with_loss_keys(&["positive_weights"]);

/// Settings of multi-label classification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiLabelConfig {
    /// The probability at or above which a class counts as predicted.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub threshold: f64,
    /// A factor above 0 for each class, in the order of the data's classes, on the loss of texts that have the class:
    /// more than 1 for a rare class. All factors are 1 when absent. The loss remains the mean over rows and classes, as
    /// with PyTorch's `pos_weight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive_weights: Option<Vec<f64>>,
    /// Dropout on the pooled vector of a text before the head.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
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

impl Default for MultiLabelConfig {
    fn default() -> Self {
        Self {
            threshold: 0.5,
            positive_weights: None,
            dropout: 0.0,
            pooling: None,
            head_bias: None,
            global_tokens: None,
        }
    }
}

impl TaskFacts for MultiLabelConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::ManyLabelled
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

    fn faults(&self, at: &mut TableFaults) {
        at.probability("dropout", self.dropout);
        let weights = self.positive_weights.as_deref().unwrap_or_default();
        if let Some(rule) = class_weights::fault("positive_weights", weights) {
            at.fault(&["positive_weights"], rule);
        }
        if !(self.threshold > 0.0 && self.threshold < 1.0) {
            let rule = format!(
                "threshold = {:?} must be a probability above 0 and below 1",
                self.threshold
            );
            at.fault(&["threshold"], rule);
        }
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![MICRO_F1, MACRO_F1, EXACT_MATCH, ROC_AUC]
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
        if let Some(weights) = &self.positive_weights {
            let key = "[task] positive_weights";
            class_weights::per_class(key, weights, &inputs.shape.classes)?;
        }
        let (model, init) = (model.restricted_to(&self.demand()), model.init_settings());
        let (d, network) = (model.d_output(), TextModel::new(&model, inputs));
        Ok(network
            .map(|network| AnyTask::MultiLabel(MultiLabel::new(network, d, &init, self, inputs))))
    }
}

/// Roles of the parameters of [`MultiLabel`].
pub const ROLES: Roles = Roles::new("MultiLabel", &[("head", Declaration::Place(Place::Head))]);

/// A text network with a multi-label head.
#[derive(Module, Debug)]
pub struct MultiLabel {
    /// The network.
    pub model: TextModel,
    /// Head with a logit for each class, `[features, classes]`.
    pub head: Linear,
    seed: u64,
    threshold: f64,
    #[module(skip)]
    positive_weights: Option<Vec<f32>>,
    #[module(skip)]
    pub(super) reading: TextReading,
}

impl MultiLabel {
    /// Builds the task from a network of width `d_model`, with a head for the data's classes that is initialised as
    /// `init` says.
    pub fn new(
        model: TextModel,
        d_model: usize,
        init: &InitSettings,
        config: &MultiLabelConfig,
        inputs: &BuildContext,
    ) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, init);
        let reading = TextReading {
            towers: false,
            pooling: config.pooling,
            globals: config.global_tokens.unwrap_or_default(),
            dropout: config.dropout,
        };
        let (classes, bias) = (inputs.shape.classes.len(), config.head_bias.unwrap_or(true));
        Self {
            model,
            head: Linear::new(
                reading.width(d_model),
                classes,
                bias,
                MatrixRole::Head,
                &init,
            ),
            seed: inputs.seed,
            threshold: config.threshold,
            positive_weights: config
                .positive_weights
                .as_ref()
                .map(|all| all.iter().map(|weight| *weight as f32).collect()),
            reading,
        }
    }

    /// Returns the logit of each class for each row, `[rows, classes]`.
    pub fn scores(&self, texts: &TextBatch, device: &Device, pass: &Pass) -> Tensor<2> {
        let (vectors, _) = self.reading.vectors(&self.model, texts, device, pass);
        heads::class_scores(&self.head, vectors)
    }

    /// Returns the logits for an input of single texts, and the hidden states `[rows, cols, d_model]`.
    pub(super) fn scores_and_hidden_of(
        &self,
        input: EncoderInput,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let (vectors, hidden) = self.reading.vectors_of(&self.model, input, pass);
        (heads::class_scores(&self.head, vectors), hidden)
    }

    /// Returns the logit of the threshold probability: a class counts as predicted at or above it.
    pub fn min_logit(&self) -> f32 {
        (self.threshold / (1.0 - self.threshold)).ln() as f32
    }

    /// Returns the probability at or above which a class counts as predicted.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Returns the pooling of a text to one vector.
    pub fn pooling(&self) -> Pooling {
        self.reading.pooling(&self.model)
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }

    fn predictions(&self, scores: &Tensor<2>, classes: &[Vec<i32>]) -> Predictions {
        let [_, count] = scores.dims();
        let mut all = MultiLabelScores::new(count, self.min_logit());
        let read = kernel::read(kernel::untracked(scores.clone()));
        let values: Vec<f32> = read.iter::<f32>().collect();
        for (scores, truth) in values.chunks(count.max(1)).zip(classes) {
            all.add(scores, truth);
        }
        Predictions::Several(all)
    }
}

/// Returns the binary cross-entropies of logits `[rows, classes]`, averaged over classes and summed over rows, `[1]`;
/// `truth` has 1 or 0 for each class of each row.
pub(super) fn loss(scores: Tensor<2>, truth: &[i32]) -> Tensor<1> {
    let [rows, classes] = scores.dims();
    binary(scores.reshape([rows * classes]), truth) / classes as f64
}

/// Like [`loss`], with these factors on the losses of classes that a row has.
fn weighted_loss(scores: Tensor<2>, truth: &[i32], weights: &[f32]) -> Tensor<1> {
    let ([rows, classes], device) = (scores.dims(), scores.device());
    let each = truth.iter().zip(weights.iter().cycle());
    let shares = each.flat_map(|(has, weight)| match has {
        0 => [1.0, 0.0],
        _ => [0.0, *weight],
    });
    let shares = TensorData::new(shares.collect::<Vec<f32>>(), [rows * classes, 2]);
    // The absence of a class has the logit 0.
    let scores = scores.reshape([rows * classes, 1]);
    let scores = Tensor::cat(vec![scores.zeros_like(), scores], 1);
    kernel::soft_cross_entropy_sum(scores, replay::floats(shares, &device)) / classes as f64
}

/// Returns the indicators `[rows, classes]`: 1 for each class that a row has, otherwise 0.
fn indicators(rows: &[Vec<i32>], classes: usize) -> Vec<i32> {
    let mut all = vec![0; rows.len() * classes];
    for (row, of_row) in rows.iter().zip(all.chunks_mut(classes.max(1))) {
        for class in row {
            of_row[*class as usize] = 1;
        }
    }
    all
}

impl Task for MultiLabel {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let classes = texts.classes.as_deref().unwrap_or_default();
        let scores = self.scores(texts, &self.device(), pass);
        let predictions = (!pass.is_training()).then(|| self.predictions(&scores, classes));
        let truth = indicators(classes, scores.dims()[1]);
        let sum = match &self.positive_weights {
            Some(weights) => weighted_loss(scores, &truth, weights),
            None => loss(scores, &truth),
        };
        Scored {
            predictions,
            ..Scored::new(sum, batch.tokens as u64)
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            multi_label: Some(self),
            infers: Some(self),
            reads: Some(self),
            ..Networks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from torch.nn.BCEWithLogitsLoss(pos_weight=[2, 0.5, 3]) of torch 2.15 with its gradient.
    #[test]
    fn positive_weights_are_torch_s() {
        let device = Device::flex().autodiff();
        let scores = TensorData::new(vec![0.5f32, -1.0, 2.0, 1.5, 0.25, -0.75], [2, 3]);
        let scores: Tensor<2> = Tensor::from_data(scores, &device).require_grad();
        let truth = indicators(&[vec![0, 2], vec![1]], 3);
        let mean = weighted_loss(scores.clone(), &truth, &[2.0, 0.5, 3.0]) / 2.0;
        let gradients = mean.backward();
        let gradient = scores.grad(&gradients).unwrap().into_data();
        let found = numbers(mean).into_iter().chain(gradient.iter::<f64>());
        let wanted = [
            0.669742, -0.125847, 0.044824, -0.059601, 0.136262, -0.036485, 0.053470,
        ];
        for (x, y) in found.zip(wanted) {
            assert!((x - y).abs() < 1e-6, "{x}, not {y}");
        }
        let plain = numbers(weighted_loss(scores.clone(), &truth, &[1.0; 3]));
        let usual = numbers(loss(scores, &truth));
        assert!((plain[0] - usual[0]).abs() < 1e-6, "{plain:?}, {usual:?}");
    }

    fn numbers(tensor: Tensor<1>) -> Vec<f64> {
        tensor.into_data().iter::<f64>().collect()
    }
}
