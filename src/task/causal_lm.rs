//! Next-token prediction: −log p(x_{t+1} | x_{≤t}), summed over scored positions. Training adds the auxiliary losses of
//! Al-Rfou et al. 2019 if asked for ([`auxiliary`](super::auxiliary)).

use super::auxiliary::{self, Auxiliary, States};
use super::distillation::Distillable;
use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, Scored, Sum, Task, TaskConfig, host};
use crate::data::batch::{Batch, TextBatch};
use crate::data::targets::{ScoredPositions, Targets};
use crate::data::{DataSet, ExampleForm, Shape};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, BITS_PER_BYTE, EXACT_MATCH, Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel;
use crate::kernel::Documents;
use crate::model::decoder::DecoderInput;
use crate::model::{AnyLanguageModel, BuildContext, Demand, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "causal_lm",
    summary: "next-token prediction with a decoder or recurrent cells",
    source: "Bengio et al. 2003; Radford et al. 2018",
    example: "{ kind = \"causal_lm\" }",
};

/// Evaluation losses depend on no key of this task, only on the evaluation stride.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("bits_per_byte", STRIDE)],
    ..MetricKeys::for_token_kind(KIND.kind).with_loss_keys(STRIDE)
};
/// The part of a window that an evaluation scores, and so how much context precedes the scored tokens.
const STRIDE: &[&str] = &["data.eval_stride"];

/// Loss of a retrieval model when it gets no neighbours.
const LOSS_WITHOUT_RETRIEVAL: Metric = Metric::lower("loss_without_retrieval");
/// Loss without neighbours minus loss with neighbours.
const RETRIEVAL_GAIN: Metric = Metric::higher("retrieval_gain");

/// The metrics that this task defines.
pub const METRICS: &[Metric] = &[LOSS_WITHOUT_RETRIEVAL, RETRIEVAL_GAIN];

/// Settings of next-token prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CausalLmConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported
    /// validation losses are without it. Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
    /// Positions that are scored in training; evaluations score all.
    pub positions: ScoredPositions,
    /// Whether the layers before the last predict the next token too: layer l of n during the first l/2n of training.
    pub intermediate_layers: bool,
    /// Weight of the loss of the token after the next; this token is not predicted when absent.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_target: Option<f64>,
}

impl TaskFacts for CausalLmConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn demand(&self) -> Demand {
        Demand {
            smooths_labels: self.label_smoothing != 0.0,
            inner_layers: self.intermediate_layers,
            ..Demand::plain(Use::NextTokens)
        }
    }

    fn targets(&self) -> Targets {
        Targets {
            positions: self.positions,
            second: self.second_target.is_some(),
        }
    }

    fn without_training_parts(&self) -> Option<TaskConfig> {
        Some(TaskConfig::CausalLm(Self {
            label_smoothing: self.label_smoothing,
            ..Self::default()
        }))
    }

    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        model.products(&self.demand(), shape) + auxiliary::products(self, model, shape)
    }

    fn can_be_distilled(&self) -> bool {
        true
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing);
        if let Some(weight) = self.second_target {
            at.positive("second_target", weight);
        }
    }

    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric> {
        let mut metrics = vec![PERPLEXITY];
        if data.has_answers() {
            metrics.extend([ACCURACY, EXACT_MATCH]);
        }
        if data.needs_tokenizer() {
            metrics.push(BITS_PER_BYTE);
        }
        if data.retrieval().is_some() {
            metrics.extend([LOSS_WITHOUT_RETRIEVAL, RETRIEVAL_GAIN]);
        }
        metrics
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        prompt.map(|prompt| format!("formwork generate {run} --prompt {prompt:?}"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        let network = AnyLanguageModel::new(model, inputs);
        Ok(network.map(|network| {
            let task = CausalLm::new(network, self, inputs.seed, exact);
            AnyTask::CausalLm(CausalLm {
                auxiliary: Auxiliary::new(self, model, inputs),
                ..task
            })
        }))
    }
}

/// A language model with its training objective.
#[derive(Module, Debug)]
pub struct CausalLm {
    /// The network.
    pub model: AnyLanguageModel,
    /// Auxiliary heads, only used in training.
    pub auxiliary: Option<Auxiliary>,
    seed: u64,
    label_smoothing: f64,
    exact_match: bool,
}

impl CausalLm {
    /// Builds a task without auxiliary losses. `seed` draws dropout; with `exact_match` evaluations count the rows
    /// whose scored positions are all predicted right.
    pub fn new(
        model: impl Into<AnyLanguageModel>,
        config: &CausalLmConfig,
        seed: u64,
        exact_match: bool,
    ) -> Self {
        Self {
            model: model.into(),
            auxiliary: None,
            seed,
            label_smoothing: config.label_smoothing,
            exact_match,
        }
    }

    /// Returns the label smoothing that applies in a pass.
    pub(super) fn smoothing(&self, pass: &Pass) -> f64 {
        host::smoothing(self.label_smoothing, pass)
    }

    /// Returns whether a pass reports the share of rows that are entirely right.
    fn counts_rows(&self, pass: &Pass) -> bool {
        self.exact_match && !pass.is_training()
    }

    fn device(&self) -> Device {
        self.model.network().device()
    }

    /// Adds the loss of the same texts without neighbours, in evaluations of a retrieval model.
    fn compare_without_retrieval(&self, scored: Scored, batch: &Batch, pass: &Pass) -> Scored {
        let (device, texts) = (self.device(), host::texts(batch));
        if pass.is_training() || texts.neighbours.is_none() {
            return scored;
        }
        let network = self.model.network();
        let alone = DecoderInput {
            neighbours: None,
            ..input(texts, &device)
        };
        let hidden = network.forward(alone, None, &Pass::evaluation());
        let targets = host::vector(&texts.targets, &device);
        let loss = network.vocabulary_head().loss(hidden, targets, 0.0, false);
        let read = |sum: Tensor<1>| f64::from(kernel::read(sum).iter::<f32>().sum::<f32>());
        let (without, with) = (read(loss.sum), read(scored.loss.sum.clone()));
        let over = |sum: f64| Sum::new(sum, batch.scored as f64);
        scored
            .with_metric(LOSS_WITHOUT_RETRIEVAL, over(without))
            .with_metric(RETRIEVAL_GAIN, over(without - with))
    }
}

/// Builds the decoder's input from texts on the host.
pub fn input(texts: &TextBatch, device: &Device) -> DecoderInput {
    let matrix = |values: &[i32]| host::matrix(values, texts.cols, device);
    DecoderInput {
        ids: matrix(&texts.inputs),
        positions: texts
            .documents
            .as_ref()
            .map(|d| matrix(&positions(d, texts.cols))),
        visible: Visibility {
            documents: texts
                .documents
                .as_ref()
                .map(|d| Documents::from_batch(d, texts.cols, device)),
            lengths: texts.lengths.as_deref().map(Into::into),
            ..Visibility::causal()
        },
        neighbours: texts.neighbours.clone(),
    }
}

/// Returns positions counted from the start of each document in a row. Padding belongs to no document and all its
/// positions are 0, since it may be longer than any document.
fn positions(documents: &[i32], cols: usize) -> Vec<i32> {
    let mut positions = Vec::with_capacity(documents.len());
    for row in documents.chunks(cols) {
        let mut start = 0;
        for (i, document) in row.iter().enumerate() {
            if *document < 0 || i > 0 && row[i - 1] != *document {
                start = i;
            }
            positions.push((i - start) as i32);
        }
    }
    positions
}

impl Task for CausalLm {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        let (device, texts) = (self.device(), host::texts(batch));
        let network = self.model.network();
        let auxiliary = self.auxiliary.as_ref().filter(|_| pass.is_training());
        let alive = auxiliary.map_or(0..0, |a| a.active_layers(batch.step, batch.steps));
        let (last, layers) = pass.with_layers(alive, || {
            network.forward(input(texts, &device), state, pass)
        });
        let targets = host::vector(&texts.targets, &device);
        let smoothing = self.smoothing(pass);
        let head = network.vocabulary_head();
        let kept = auxiliary.map(|auxiliary| (auxiliary, last.clone()));
        let tells_hits = self.counts_rows(pass);
        let loss = head.loss(last, targets, smoothing, tells_hits);
        let scored = Scored::new(loss.sum, texts.inputs.len() as u64);
        if let Some((auxiliary, last)) = kept {
            let states = States {
                last: &last,
                layers,
            };
            return auxiliary.add(scored, states, texts, &device, smoothing);
        }
        let scored = self.compare_without_retrieval(scored, batch, pass);
        if !self.counts_rows(pass) {
            return scored;
        }
        let hits: Vec<f32> = kernel::read(loss.is_correct).iter::<f32>().collect();
        let (tokens, rows) = count_right(&hits, texts);
        scored
            .with_metric(ACCURACY, tokens)
            .with_metric(EXACT_MATCH, rows)
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let texts = host::texts(batch);
        let alike =
            texts.lengths.is_none() && texts.neighbours.is_none() && self.auxiliary.is_none();
        let documents = texts.documents.as_ref().map(|documents| {
            let positions = positions(documents, texts.cols);
            [&positions, documents].map(|x| host::matrix_data(x, texts.cols))
        });
        alike.then(|| {
            let mut all = vec![host::matrix_data(&texts.inputs, texts.cols)];
            all.extend(documents.into_iter().flatten());
            all.push(host::vector_data(&texts.targets));
            all
        })
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        Some(self)
    }

    fn empty_state(&self) -> Option<ModelState> {
        let state = self.model.network().empty_state(StateUse::Segments);
        state.has_state().then_some(state)
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            language_model: Some(self.model.network()),
            infers: Some(self),
            ..Networks::default()
        }
    }
}

/// Counts scored tokens that are predicted right, and rows in which all are: such a row is exactly what greedy decoding
/// would write.
fn count_right(hits: &[f32], texts: &TextBatch) -> (Sum, Sum) {
    let (mut tokens, mut rows) = (Sum::default(), Sum::default());
    let targets = texts.targets.chunks(texts.cols);
    for (hits, targets) in hits.chunks(texts.cols).zip(targets) {
        let all = targets.iter().filter(|t| **t >= 0).count();
        let hits = hits.iter().filter(|hit| **hit > 0.0).count();
        tokens += Sum::new(hits as f64, all as f64);
        if all > 0 {
            rows += Sum::new(f64::from(u8::from(hits == all)), 1.0);
        }
    }
    (tokens, rows)
}
