//! Regression: predicts a number for whole texts or pairs of texts, such as the similarity of two sentences (Devlin et
//! al. 2018, section 4.1, STS-B).
//!
//! A head maps the pooled vector of a text, as in `text_classification`, to one number, and the loss is the squared
//! error. Numbers are those of the data, neither shifted nor scaled.

use super::facts::{GlobalTokenSupport, TaskFacts};
use super::infer::InferenceTask;
use super::metric_keys::MetricKeys;
use super::whole_text::{Pooling, TextReading};
use super::{AnyTask, Networks, Scored, Task, host, towers};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, ExampleForm, Shape};
use crate::error::Result;
use crate::evaluate::correlation::NumberPairs;
use crate::evaluate::metric::{Metric, PEARSON, SPEARMAN};
use crate::evaluate::predictions::Predictions;
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
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "regression",
    summary: "numbers of texts or of pairs of texts with an encoder, a decoder or recurrent cells",
    source: "Devlin et al. 2018, section 4.1 (STS-B); Cer et al., arXiv:1708.00055",
    example: "{ kind = \"regression\" }",
};

/// Evaluation losses depend on no key of this task.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_kind(KIND.kind);

/// Settings of regression.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RegressionConfig {
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

impl TaskFacts for RegressionConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Numbered
    }

    fn demand(&self) -> Demand {
        Demand {
            pooled_text: Pooling::demand(self.pooling),
            ..Demand::plain(Use::TextRegression)
        }
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("dropout", self.dropout);
    }

    fn has_towers(&self) -> bool {
        self.towers
    }

    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        if self.towers {
            towers::products(model, &demand, shape, 1)
        } else {
            model.restricted_to(&demand).products(&demand, shape)
        }
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![PEARSON, SPEARMAN]
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
        Ok(network
            .map(|network| AnyTask::Regression(Regression::new(network, d, &init, self, inputs))))
    }
}

/// Roles of the parameters of [`Regression`].
pub const ROLES: Roles = Roles::new("Regression", &[("head", Declaration::Place(Place::Head))]);

/// A text network that predicts one number for each text.
#[derive(Module, Debug)]
pub struct Regression {
    /// The network.
    pub model: TextModel,
    /// Head with one output, `[features, 1]`.
    pub head: Linear,
    seed: u64,
    #[module(skip)]
    pub(super) reading: TextReading,
}

impl Regression {
    /// Builds the task from a network of width `d_model`, with a head for one number that is initialised as `init`
    /// says.
    pub fn new(
        model: TextModel,
        d_model: usize,
        init: &InitSettings,
        config: &RegressionConfig,
        inputs: &BuildContext,
    ) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, init);
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
                1,
                config.head_bias.unwrap_or(true),
                MatrixRole::Head,
                &init,
            ),
            seed: inputs.seed,
            reading,
        }
    }

    /// Returns the predicted number of each row, `[rows, 1]`.
    pub fn numbers(&self, texts: &TextBatch, device: &Device, pass: &Pass) -> Tensor<2> {
        let (vectors, _) = self.reading.vectors(&self.model, texts, device, pass);
        heads::class_scores(&self.head, vectors)
    }

    /// Returns the predicted numbers for an input of single texts, and the hidden states `[rows, cols, d_model]`.
    pub(super) fn numbers_and_hidden_of(
        &self,
        input: EncoderInput,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let (vectors, hidden) = self.reading.vectors_of(&self.model, input, pass);
        (heads::class_scores(&self.head, vectors), hidden)
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

/// Returns the sum of the squared errors of predictions `[rows, 1]`, `[1]`; in at least 32 bits.
pub(super) fn squared_errors(numbers: Tensor<2>, truth: &[f32]) -> Tensor<1> {
    let numbers = match numbers.dtype() {
        DType::F16 | DType::BF16 => numbers.cast(FloatDType::F32),
        _ => numbers,
    };
    let (rows, device) = (truth.len(), numbers.device());
    let format = FloatDType::from(numbers.dtype());
    let truth = Tensor::<2>::from_data(TensorData::new(truth.to_vec(), [rows, 1]), &device);
    let distance = numbers - truth.cast(format);
    (distance.clone() * distance).sum()
}

impl Task for Regression {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let truth = texts.numbers.as_deref().unwrap_or_default();
        let numbers = self.numbers(texts, &self.device(), pass);
        let predictions = (!pass.is_training()).then(|| {
            let predicted = kernel::read(kernel::untracked(numbers.clone()));
            let mut all = NumberPairs::default();
            for (predicted, truth) in predicted.iter::<f32>().zip(truth) {
                all.add(*truth, predicted);
            }
            Predictions::Numbers(all)
        });
        Scored {
            predictions,
            ..Scored::new(squared_errors(numbers, truth), batch.tokens as u64)
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_regression: Some(self),
            // Arrays of whole rows do not tell where a second text begins.
            infers: (!self.reading.towers).then_some(self as &dyn InferenceTask),
            reads: Some(self),
            ..Networks::default()
        }
    }
}
