//! The facts about a kind of task beside its scoring function. Each kind states them in its own file.

use super::class_weights::ClassWeights;
use super::{AnyTask, TaskConfig};
use crate::data::images::ViewsConfig;
use crate::data::targets::Targets;
use crate::data::{DataSet, ExampleForm, Shape, Source, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::faults::TableFaults;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig};
use crate::nn::Kind;

/// The global tokens that a task marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalTokenSupport {
    /// The task has no key for global tokens.
    Unsupported,
    /// The tokens named by the task's key, if it is set.
    Supported(Option<GlobalTokens>),
}

/// The facts about a kind of task, and the construction of its network.
pub trait TaskFacts {
    /// Returns the entry of this kind among the kinds of `[task]`.
    fn kind(&self) -> Kind;

    /// Returns the form of the training examples.
    fn example_form(&self) -> ExampleForm;

    /// Returns how texts are presented to the task.
    fn view(&self) -> View {
        View::Plain
    }

    /// Returns whether the task compares written texts with the answers of the data, so that it needs the answers in
    /// full.
    fn whole_answers(&self) -> bool {
        false
    }

    /// Returns the targets of training texts.
    fn targets(&self) -> Targets {
        Targets::default()
    }

    /// Returns the weights of the classes, if any are set.
    fn class_weights(&self) -> Option<&ClassWeights> {
        None
    }

    /// Returns the same task without the parts that are only used in training; `None` if it has no such parts.
    fn without_training_parts(&self) -> Option<TaskConfig> {
        None
    }

    /// Returns the task as which other programs know these networks, if it is a different one.
    fn published_as(&self) -> Option<TaskConfig> {
        None
    }

    /// Returns the demand on a network, without what the data adds.
    fn demand(&self) -> Demand;

    /// Returns the tokens that are global in attention with global tokens.
    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Unsupported
    }

    /// Returns whether the task can be learned from a teacher; if so, its [`Task`](super::Task) provides the outputs.
    fn can_be_distilled(&self) -> bool {
        false
    }

    /// Returns whether the task reads the two texts of an example separately and compares them.
    fn has_towers(&self) -> bool {
        false
    }

    /// Returns whether the task only reads examples of two texts.
    fn needs_two_texts(&self) -> bool {
        false
    }

    /// Returns the rows of a step that the loss compares with each other: `Some(Some(n))` for groups of n rows,
    /// `Some(None)` for all rows. `None` if each row's loss depends on that row only.
    fn compared_rows(&self) -> Option<Option<usize>> {
        None
    }

    /// Returns the views of images that the task compares, if it compares any.
    fn views(&self) -> Option<&ViewsConfig> {
        None
    }

    /// Returns the number of tokens of a row that memories take in, if the experiment sets it.
    fn reuse_len(&self) -> Option<usize> {
        None
    }

    /// Returns the share of the old weights in the moving average that acts as teacher, at the first step; `None` if
    /// there is no such teacher.
    fn teacher_momentum(&self) -> Option<f64> {
        None
    }

    /// Returns the number of rows that the network reads for each training example.
    fn rows_per_example(&self) -> usize {
        1
    }

    /// Returns the number of consecutive steps that take the same examples; the later steps continue from what the
    /// first one passes on.
    fn updates_per_batch(&self) -> u64 {
        1
    }

    /// Returns the length in tokens of the longest text that is written for one of `context` tokens; `None` if none is
    /// written.
    fn longest_written(&self, context: usize) -> Option<usize> {
        (self.example_form() == ExampleForm::Pairs).then_some(context)
    }

    /// Returns the network that is trained beside `model` and dropped when the model is used, if there is one.
    fn companion_model(&self, _model: &ModelConfig) -> Option<ModelConfig> {
        None
    }

    /// Returns the number of positions that the network reads of an input of this shape, if fewer than the model's.
    fn positions_read(&self, _model: &ModelConfig, _shape: &Shape) -> Option<usize> {
        None
    }

    /// Returns whether the task reads class labels, if the examples have them.
    fn reads_classes(&self) -> bool {
        true
    }

    /// Returns the parameters that another task reads as a sum: pairs of a parameter's path and the path of the
    /// parameter added to it.
    fn summed_parameters(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Describes a fault of the examples that the task is to be trained on, if there is one.
    ///
    /// # Errors
    /// If an example cannot be read.
    fn data_fault(&self, _train: &dyn Source) -> Result<Option<String>> {
        Ok(None)
    }

    /// Returns the reason why the task cannot be trained, if there is one; it can still be used.
    fn untrainable(&self) -> Option<&'static str> {
        None
    }

    /// Returns the number of multiplications of a forward pass over one example, heads included.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = Demand {
            max_generated: self.longest_written(shape.context),
            ..self.demand()
        };
        model.restricted_to(&demand).products(&demand, shape)
    }

    /// Checks the keys and reports faults.
    fn faults(&self, _at: &mut TableFaults) {}

    /// Returns the metrics that an evaluation on this data reports beside the loss.
    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric>;

    /// Returns a command that uses a finished run; `prompt` is a text that a model can continue, if there is one.
    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String>;

    /// Builds the network with its objective; `None` if the model cannot serve the task. `exact` says that rows have
    /// one right answer, so that the share of exactly right rows is a metric.
    ///
    /// # Errors
    /// If the model cannot read the data.
    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>>;
}

impl TaskConfig {
    /// Returns the facts of the configured task.
    pub fn facts(&self) -> &dyn TaskFacts {
        match self {
            Self::CausalLm(c) => c,
            Self::MaskedLm(c) => c,
            Self::Translation(c) => c,
            Self::TextClassification(c) => c,
            Self::MultiLabel(c) => c,
            Self::Regression(c) => c,
            Self::TextEmbedding(c) => c,
            Self::TokenClassification(c) => c,
            Self::QuestionAnswering(c) => c,
            Self::ImageClassification(c) => c,
            Self::MaskedImage(c) => c,
            Self::SelfDistillation(c) => c,
            Self::ImageText(c) => c,
            Self::Captioning(c) => c,
            Self::Transcription(c) => c,
            Self::Ctc(c) => c,
            Self::ContrastiveSpeech(c) => c,
            Self::Distillation(c) => c,
            Self::Preference(c) => c,
            Self::Reward(c) => c,
            Self::Grpo(c) => c,
            Self::SpanCorruption(c) => c,
            Self::Denoising(c) => c,
            Self::ReplacedToken(c) => c,
            Self::PermutedLm(c) => c,
        }
    }
}
