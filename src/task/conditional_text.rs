//! Shared task of writing texts about inputs of one form, such as images or recordings: −log p(y_t | y_{<t}, input),
//! with label smoothing, over a text from its begin token to its end token.
//!
//! A form of inputs implements two traits in one file: [`ConditionalTextConfig`] for the keys of its task, and [`ConditionalTextModel`] for what
//! its network reads of a batch. This file has what all forms share: the facts of the task, the loss, and the inputs of
//! a step.

use super::facts::TaskFacts;
use super::{AnyTask, Networks, Scored, Task, host};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, ExampleForm};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel::HeadLoss;
use crate::model::heads::VocabularyHead;
use crate::model::{BuildContext, Demand, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

/// Settings of a task that writes texts about inputs of one form.
pub trait ConditionalTextConfig {
    /// The network that writes the texts.
    type Network: ConditionalTextModel;
    /// The entry of this kind among the kinds of `[task]`.
    const KIND: Kind;
    /// The form of the training examples.
    const READS: ExampleForm;
    /// What the task uses a network for.
    const USE: Use;
    /// The command that writes such texts, and its file argument.
    const COMMAND: [&'static str; 2];

    /// Returns the share of the probability that is spread over the whole vocabulary in training.
    fn label_smoothing(&self) -> f64;

    /// Builds the network of a model that serves the use.
    ///
    /// # Errors
    /// If the model cannot read the data.
    fn network(&self, model: &ModelConfig, inputs: &BuildContext) -> Result<Self::Network>;
}

/// A network that writes texts about inputs of one form.
pub trait ConditionalTextModel: Module {
    /// Inputs and the texts about them, row by row.
    type Rows;
    /// Name of the part of a pass in which the texts are written.
    const PASS_PART: &'static str;

    /// Returns the device of the parameters.
    fn device(&self) -> Device;

    /// Returns the rows of a batch.
    fn rows(batch: &Batch) -> &Self::Rows;

    /// Returns the texts of some rows.
    fn texts(rows: &Self::Rows) -> &TextBatch;

    /// Returns the inputs of some rows as host data, ready for a device.
    fn inputs(rows: &Self::Rows) -> TensorData;

    /// Returns whether a pass over these texts reads only their tokens, so that it can be replayed with other tokens.
    fn reads_tokens_alone(texts: &TextBatch) -> bool;

    /// Returns the hidden states `[rows, seq, d_model]` of the texts, given their inputs.
    fn hidden(&self, rows: &Self::Rows, pass: &Pass) -> Tensor<3>;

    /// Returns the LM head.
    fn head(&self) -> VocabularyHead<'_>;

    /// Wraps the task as a variant of [`AnyTask`].
    fn into_any(task: ConditionalText<Self>) -> AnyTask;

    /// Returns the networks by their use after training.
    fn networks(task: &ConditionalText<Self>) -> Networks<'_>;
}

/// A network that writes texts about inputs, with its training objective.
#[derive(Module, Debug)]
pub struct ConditionalText<N: Module> {
    /// The network.
    pub model: N,
    seed: u64,
    label_smoothing: f64,
}

impl<C: ConditionalTextConfig> TaskFacts for C {
    fn kind(&self) -> Kind {
        C::KIND
    }

    fn example_form(&self) -> ExampleForm {
        C::READS
    }

    fn demand(&self) -> Demand {
        Demand {
            smooths_labels: self.label_smoothing() != 0.0,
            ..Demand::plain(C::USE)
        }
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing());
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![PERPLEXITY, ACCURACY]
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        let [command, file] = C::COMMAND;
        Some(format!("formwork {command} {run} {file}"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&C::USE) {
            return Ok(None);
        }
        Ok(Some(C::Network::into_any(ConditionalText {
            model: self.network(model, inputs)?,
            seed: inputs.seed,
            label_smoothing: self.label_smoothing(),
        })))
    }
}

impl<N: ConditionalTextModel> ConditionalText<N> {
    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }

    /// Returns the loss of texts given their inputs.
    fn loss(&self, rows: &N::Rows, pass: &Pass) -> HeadLoss {
        let hidden = self.model.hidden(rows, pass);
        let targets = host::vector(&N::texts(rows).targets, &self.device());
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let head = self.model.head();
        head.loss(hidden, targets, smoothing, !pass.is_training())
    }
}

impl<N: ConditionalTextModel> Task for ConditionalText<N> {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let rows = N::rows(batch);
        let loss = self.loss(rows, pass);
        host::score_written(loss, &N::texts(rows).targets, batch, pass)
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let rows = N::rows(batch);
        let texts = N::texts(rows);
        N::reads_tokens_alone(texts).then(|| {
            vec![
                N::inputs(rows),
                host::matrix_data(&texts.inputs, texts.cols),
                host::vector_data(&texts.targets),
            ]
        })
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        let texts = N::texts(N::rows(batch));
        let lengths = texts.lengths.clone();
        let lengths = lengths.unwrap_or_else(|| vec![texts.cols; batch.rows]);
        ProbeSample {
            within: N::PASS_PART,
            ..host::longest_row(lengths.into_iter())
        }
    }

    fn networks(&self) -> Networks<'_> {
        N::networks(self)
    }
}
