//! The facts of a kind of task beside its scoring function: each kind says its own, in its own file.

use super::class_weights::ClassWeights;
use super::{AnyTask, TaskConfig};
use crate::data::images::ViewsConfig;
use crate::data::targets::Targets;
use crate::data::{DataSet, Gives, Shape, Source, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::faults::TableFaults;
use crate::model::{Demand, GlobalTokens, ModelConfig, ModelInputs};
use crate::nn::Kind;

/// The tokens that a task marks as global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// It has no key for them.
    Cannot,
    /// Those that its key says, when it is given.
    May(Option<GlobalTokens>),
}

/// The facts of a kind of task, and its network.
pub trait TaskFacts {
    /// Its row of the family's table.
    fn kind(&self) -> Kind;

    /// The form of the examples that it is learned from.
    fn reads(&self) -> Gives;

    /// How texts are read for it.
    fn view(&self) -> View {
        View::AsItIs
    }

    /// Whether it compares texts with the answers of the data, so that it needs these whole.
    fn whole_answers(&self) -> bool {
        false
    }

    /// The targets that the texts of training have.
    fn targets(&self) -> Targets {
        Targets::default()
    }

    /// The weights of its classes, where they have some.
    fn class_weights(&self) -> Option<&ClassWeights> {
        None
    }

    /// The same task without the parts that training alone uses; `None` when it has no such parts.
    fn of_use(&self) -> Option<TaskConfig> {
        None
    }

    /// The task under which other programs know its networks, when it is another one.
    fn elsewhere(&self) -> Option<TaskConfig> {
        None
    }

    /// Its demand on a network, without what the data adds.
    fn demand(&self) -> Demand;

    /// The tokens that are global in attention with global tokens.
    fn global_tokens(&self) -> Marks {
        Marks::Cannot
    }

    /// Whether it can be learned from a teacher: its [`Task`](super::Task) says how.
    fn can_be_distilled(&self) -> bool {
        false
    }

    /// Whether it reads the two texts of an example alone and compares them.
    fn has_towers(&self) -> bool {
        false
    }

    /// Whether it reads examples of two texts alone.
    fn needs_two_texts(&self) -> bool {
        false
    }

    /// The rows of a step that its loss compares with each other, as groups of so many or all of them; `None` where a row's
    /// loss is its own.
    fn compared_rows(&self) -> Option<Option<usize>> {
        None
    }

    /// The views of images that it compares, where it does.
    fn views(&self) -> Option<&ViewsConfig> {
        None
    }

    /// Tokens of a row that memories take in, where its experiment says how many.
    fn reuse_len(&self) -> Option<usize> {
        None
    }

    /// The share of the old weights in the moving average that teaches it, at the first step; `None` where none does.
    fn teacher_momentum(&self) -> Option<f64> {
        None
    }

    /// Rows that its network reads for each example in training.
    fn rows_of_each(&self) -> usize {
        1
    }

    /// Consecutive steps that take the same examples, of which the later ones go on from what the first one passes to them.
    fn updates(&self) -> u64 {
        1
    }

    /// Tokens of the longest text that is written for one of `context` tokens; `None` where none is.
    fn written(&self, context: usize) -> Option<usize> {
        (self.reads() == Gives::Pairs).then_some(context)
    }

    /// The network that is trained beside `model` and left behind when the model is used, when there is one.
    fn beside(&self, _model: &ModelConfig) -> Option<ModelConfig> {
        None
    }

    /// Positions of an input of this shape that its network reads, where these are fewer than the model's.
    fn seen(&self, _model: &ModelConfig, _shape: &Shape) -> Option<usize> {
        None
    }

    /// Whether it reads the classes of examples that have some.
    fn reads_classes(&self) -> bool {
        true
    }

    /// Parameters that another task reads as a sum: the path of one of its own, and that of what is added to it.
    fn sums(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// A fault of the examples that it is to be trained on.
    ///
    /// # Errors
    /// An example that cannot be read.
    fn data_fault(&self, _train: &dyn Source) -> Result<Option<String>> {
        Ok(None)
    }

    /// The reason why it cannot be trained, if there is one; it can be used all the same.
    fn untrainable(&self) -> Option<&'static str> {
        None
    }

    /// Multiplications of a forward pass over one example with its heads.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = Demand {
            written: self.written(shape.context),
            ..self.demand()
        };
        model.under(&demand).products(&demand, shape)
    }

    /// Faults of its keys.
    fn faults(&self, _at: &mut TableFaults) {}

    /// The metrics that an evaluation on this data writes down beside the loss.
    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric>;

    /// A command that puts a finished run to use, with a text that a model can continue when there is one.
    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String>;

    /// The network with its objective; `None` for a model that does not serve it. `exact` says that rows have one right
    /// answer, so that the share of exact ones is a metric.
    ///
    /// # Errors
    /// A model that cannot read the data.
    fn init(
        &self,
        model: &ModelConfig,
        inputs: &ModelInputs,
        exact: bool,
    ) -> Result<Option<AnyTask>>;
}

impl TaskConfig {
    /// The task that acts.
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
