//! Translation, summarisation and any other text to text with an encoder-decoder: −log p(y_t | y_{<t}, x), with label
//! smoothing (Vaswani et al. 2017, section 5.4).

use super::distillation::Distillable;
use super::facts::{GlobalTokenSupport, TaskFacts};
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, PrefixLm, Scored, Task, TextToText, host};
use crate::data::DataSet;
use crate::data::ExampleForm;
use crate::data::batch::{Batch, PairBatch};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel::HeadLoss;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig, PairModel, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "translation",
    summary: "text to text: an encoder-decoder, or a decoder that continues after the source (prefix language model)",
    source: "Vaswani et al. 2017; Liu et al. 2018 (decoder-only); Raffel et al. 2019 (prefix)",
    example: "{ kind = \"translation\", label_smoothing = 0.1 }",
};

/// Evaluation losses depend on no key of this task.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_token_kind(KIND.kind);

/// Settings of translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without
    /// it. Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
    /// Whether a decoder attends to the whole source from every position of the source; otherwise attention is causal.
    /// For decoders only: an encoder always does.
    pub bidirectional_source: bool,
    /// Tokens of a source that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl TaskFacts for TranslationConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Pairs
    }

    fn demand(&self) -> Demand {
        Demand {
            bidirectional_source: self.bidirectional_source,
            smooths_labels: self.label_smoothing != 0.0,
            ..Demand::plain(Use::TextToText)
        }
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing);
        if self.global_tokens == Some(GlobalTokens::FirstSegment) {
            let rule = "global_tokens = \"first_segment\" makes every token global: a source has one segment; use \"first\" or \
                        \"special\"";
            at.fault(&["global_tokens"], rule);
        }
    }

    fn can_be_distilled(&self) -> bool {
        true
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![PERPLEXITY, ACCURACY]
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        Some(match prompt {
            Some(prompt) => format!("echo {prompt:?} | formwork translate {run}"),
            None => format!("formwork translate {run} --input FILE"),
        })
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if let Some(model) = model.prefix_decoder() {
            return Ok(Some(AnyTask::PrefixLm(PrefixLm::new(model, self, inputs))));
        }
        let network = PairModel::new(model, inputs);
        Ok(network.map(|n| AnyTask::Translation(Translation::new(n, self, inputs.seed))))
    }
}

/// A text-to-text network with its training objective.
#[derive(Module, Debug)]
pub struct Translation {
    /// The network.
    pub model: PairModel,
    seed: u64,
    label_smoothing: f64,
}

impl Translation {
    /// Builds the task; `seed` draws dropout.
    pub fn new(model: impl Into<PairModel>, config: &TranslationConfig, seed: u64) -> Self {
        Self {
            model: model
                .into()
                .with_global_tokens(config.global_tokens.unwrap_or_default()),
            seed,
            label_smoothing: config.label_smoothing,
        }
    }

    /// Returns the label smoothing that applies in a pass.
    pub(super) fn smoothing(&self, pass: &Pass) -> f64 {
        host::smoothing(self.label_smoothing, pass)
    }

    /// Returns the hidden states `[rows, target, d_model]` of the decoder.
    pub(super) fn hidden(&self, pairs: &PairBatch, device: &Device, pass: &Pass) -> Tensor<3> {
        let source = host::matrix(&pairs.source, pairs.source_cols, device);
        let filled = pairs.source_lengths.iter().any(|n| *n < pairs.source_cols);
        let lengths = filled.then(|| pairs.source_lengths.clone());
        let inputs = host::matrix(&pairs.inputs, pairs.target_cols, device);
        self.model.hidden_states(source, lengths, inputs, pass)
    }

    /// Returns the loss of some pairs.
    fn loss(&self, pairs: &PairBatch, device: &Device, pass: &Pass) -> HeadLoss {
        let hidden = self.hidden(pairs, device, pass);
        let targets = host::vector(&pairs.targets, device);
        self.model.vocabulary_head().loss(
            hidden,
            targets,
            self.smoothing(pass),
            !pass.is_training(),
        )
    }
}

impl Task for Translation {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let pairs = host::pairs(batch);
        let device = self.model.vocabulary_head().embedding.device();
        let loss = self.loss(pairs, &device, pass);
        host::score_written(loss, &pairs.targets, batch, pass)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        Some(self)
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        // The encoder's mask already excludes the padding of sources.
        ProbeSample {
            within: "decoder",
            ..host::longest_row(host::pairs(batch).target_lengths.iter().copied())
        }
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_to_text: Some(match &self.model {
                PairModel::EncoderDecoder(network) => TextToText::EncoderDecoder(network),
                PairModel::Recurrent(network) => TextToText::Recurrent(network),
            }),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
