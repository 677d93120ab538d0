//! Texts about inputs of one form, an image or a recording each: −log p(y_t | y_{<t}, input), with label smoothing, of a text from the
//! token that begins it to the one that ends it.
//!
//! A form of inputs is two things in one file: the keys of its task ([`About`]) and what its network reads of a batch ([`Describes`]).
//! What all forms do alike stands here: the facts of the task, the loss, and what a step reads.

use super::facts::TaskFacts;
use super::{AnyTask, Networks, Scored, Task, host};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, Gives};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel::HeadLoss;
use crate::model::heads::VocabularyHead;
use crate::model::{Demand, ModelConfig, ModelInputs, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

/// The keys of a task that writes texts about inputs of one form.
pub trait About {
    /// The network that writes them.
    type Network: Describes;
    /// Its row of the family's table.
    const KIND: Kind;
    /// The form of the examples that it is learned from.
    const READS: Gives;
    /// The use that a network is put to.
    const USE: Use;
    /// The command that writes such texts, and a file that it is given.
    const COMMAND: [&'static str; 2];

    /// Share of the probability that is spread over the whole vocabulary in training.
    fn label_smoothing(&self) -> f64;

    /// The network of a model that serves the use.
    ///
    /// # Errors
    /// A model that cannot read the data.
    fn network(&self, model: &ModelConfig, inputs: &ModelInputs) -> Result<Self::Network>;
}

/// A network that writes texts about inputs of one form.
pub trait Describes: Module {
    /// Inputs and the texts about them, row by row.
    type Rows;
    /// The part of a pass in which the texts are written.
    const WRITES_IN: &'static str;

    /// The device of its parameters.
    fn device(&self) -> Device;

    /// The rows of a batch.
    fn rows(batch: &Batch) -> &Self::Rows;

    /// The texts of some rows.
    fn texts(rows: &Self::Rows) -> &TextBatch;

    /// The inputs of some rows, on their way to a device.
    fn inputs(rows: &Self::Rows) -> TensorData;

    /// Whether a pass over these texts reads their tokens alone, so that it can be replayed with others.
    fn reads_tokens_alone(texts: &TextBatch) -> bool;

    /// Hidden states `[rows, seq, d_model]` of the texts after their inputs.
    fn hidden(&self, rows: &Self::Rows, pass: &Pass) -> Tensor<3>;

    /// The product onto the vocabulary.
    fn head(&self) -> VocabularyHead<'_>;

    /// Its task as one of all.
    fn any(task: TextAbout<Self>) -> AnyTask;

    /// Its use once it is trained.
    fn networks(task: &TextAbout<Self>) -> Networks<'_>;
}

/// A network that writes texts about inputs, with its objective.
#[derive(Module, Debug)]
pub struct TextAbout<N: Module> {
    /// The network.
    pub model: N,
    seed: u64,
    label_smoothing: f64,
}

impl<C: About> TaskFacts for C {
    fn kind(&self) -> Kind {
        C::KIND
    }

    fn reads(&self) -> Gives {
        C::READS
    }

    fn demand(&self) -> Demand {
        Demand {
            smooths: self.label_smoothing() != 0.0,
            ..Demand::of(C::USE)
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
        inputs: &ModelInputs,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&C::USE) {
            return Ok(None);
        }
        Ok(Some(C::Network::any(TextAbout {
            model: self.network(model, inputs)?,
            seed: inputs.seed,
            label_smoothing: self.label_smoothing(),
        })))
    }
}

impl<N: Describes> TextAbout<N> {
    /// The device of its parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }

    /// The loss of texts after their inputs.
    fn loss(&self, rows: &N::Rows, pass: &Pass) -> HeadLoss {
        let hidden = self.model.hidden(rows, pass);
        let targets = host::vector(&N::texts(rows).targets, &self.device());
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let head = self.model.head();
        head.loss(hidden, targets, smoothing, !pass.trains())
    }
}

impl<N: Describes> Task for TextAbout<N> {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let rows = N::rows(batch);
        let loss = self.loss(rows, pass);
        host::written(loss, &N::texts(rows).targets, batch, pass)
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

    fn sample(&self, batch: &Batch) -> Sample {
        let texts = N::texts(N::rows(batch));
        let lengths = texts.lengths.clone();
        let lengths = lengths.unwrap_or_else(|| vec![texts.cols; batch.rows]);
        Sample {
            within: N::WRITES_IN,
            ..host::longest(lengths.into_iter())
        }
    }

    fn networks(&self) -> Networks<'_> {
        N::networks(self)
    }
}
