//! The tasks of `[task]` as one type, so that burn-train and the step loop are compiled only once.
//!
//! Parameter paths are those of the wrapped task, so that weights are found by the same names for every task.

use super::distillation::Distillable;
use super::grpo::Judge;
use super::output::KeptVectors;
use super::{
    Captioning, CausalLm, ContrastiveSpeech, Ctc, Distillation, Grpo, ImageClassification,
    ImageText, MaskedImage, MaskedLm, MultiLabel, Networks, PermutedLm, Preference, PrefixLm,
    QuestionAnswering, Regression, ReplacedToken, Reward, Scored, SelfDistillation, Task,
    TextClassification, TextEmbedding, TokenClassification, Transcription, Translation,
};
use crate::data::batch::Batch;
use crate::data::images::normalise::Renormalise;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::{Device, TensorData};
use std::fmt;

/// One of the tasks.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum AnyTask {
    /// Next-token prediction.
    CausalLm(CausalLm),
    /// Masked language modelling.
    MaskedLm(MaskedLm),
    /// Text to text with an encoder-decoder.
    Translation(Translation),
    /// Text to text with a decoder.
    PrefixLm(PrefixLm),
    /// Text classification.
    TextClassification(TextClassification),
    /// Text classification with any number of classes for each text.
    MultiLabel(MultiLabel),
    /// Regression: numbers for texts.
    Regression(Regression),
    /// Text embeddings.
    TextEmbedding(TextEmbedding),
    /// Tags of words.
    TokenClassification(TokenClassification),
    /// Answers to questions.
    QuestionAnswering(QuestionAnswering),
    /// Image classification.
    ImageClassification(ImageClassification),
    /// Masked patches of images.
    MaskedImage(MaskedImage),
    /// Self-distillation from views of images.
    SelfDistillation(SelfDistillation),
    /// Images and their texts.
    ImageText(ImageText),
    /// Captions of images.
    Captioning(Captioning),
    /// Transcripts of recordings.
    Transcription(Transcription),
    /// Characters along the frames of recordings.
    Ctc(Ctc),
    /// Codes of masked frames of recordings.
    ContrastiveSpeech(ContrastiveSpeech),
    /// Another task with a teacher.
    Distillation(Distillation),
    /// Preference of one text over another.
    Preference(Preference),
    /// Rewards of texts.
    Reward(Reward),
    /// Completions learned by their rewards.
    Grpo(Grpo),
    /// Detection of replaced tokens.
    ReplacedToken(ReplacedToken),
    /// Tokens in a random order.
    PermutedLm(PermutedLm),
}

/// Makes the same call on the wrapped task, whichever it is.
macro_rules! each {
    ($any:expr, $task:ident => $call:expr) => {
        match $any {
            AnyTask::CausalLm($task) => $call,
            AnyTask::MaskedLm($task) => $call,
            AnyTask::Translation($task) => $call,
            AnyTask::PrefixLm($task) => $call,
            AnyTask::TextClassification($task) => $call,
            AnyTask::MultiLabel($task) => $call,
            AnyTask::Regression($task) => $call,
            AnyTask::TextEmbedding($task) => $call,
            AnyTask::TokenClassification($task) => $call,
            AnyTask::QuestionAnswering($task) => $call,
            AnyTask::ImageClassification($task) => $call,
            AnyTask::MaskedImage($task) => $call,
            AnyTask::SelfDistillation($task) => $call,
            AnyTask::ImageText($task) => $call,
            AnyTask::Captioning($task) => $call,
            AnyTask::Transcription($task) => $call,
            AnyTask::Ctc($task) => $call,
            AnyTask::ContrastiveSpeech($task) => $call,
            AnyTask::Distillation($task) => $call,
            AnyTask::Preference($task) => $call,
            AnyTask::Reward($task) => $call,
            AnyTask::Grpo($task) => $call,
            AnyTask::ReplacedToken($task) => $call,
            AnyTask::PermutedLm($task) => $call,
        }
    };
}

/// Makes the same call on the wrapped task and wraps its result as the same variant.
macro_rules! mapped {
    ($any:expr, $task:ident => $call:expr) => {
        match $any {
            AnyTask::CausalLm($task) => AnyTask::CausalLm($call),
            AnyTask::MaskedLm($task) => AnyTask::MaskedLm($call),
            AnyTask::Translation($task) => AnyTask::Translation($call),
            AnyTask::PrefixLm($task) => AnyTask::PrefixLm($call),
            AnyTask::TextClassification($task) => AnyTask::TextClassification($call),
            AnyTask::MultiLabel($task) => AnyTask::MultiLabel($call),
            AnyTask::Regression($task) => AnyTask::Regression($call),
            AnyTask::TextEmbedding($task) => AnyTask::TextEmbedding($call),
            AnyTask::TokenClassification($task) => AnyTask::TokenClassification($call),
            AnyTask::QuestionAnswering($task) => AnyTask::QuestionAnswering($call),
            AnyTask::ImageClassification($task) => AnyTask::ImageClassification($call),
            AnyTask::MaskedImage($task) => AnyTask::MaskedImage($call),
            AnyTask::SelfDistillation($task) => AnyTask::SelfDistillation($call),
            AnyTask::ImageText($task) => AnyTask::ImageText($call),
            AnyTask::Captioning($task) => AnyTask::Captioning($call),
            AnyTask::Transcription($task) => AnyTask::Transcription($call),
            AnyTask::Ctc($task) => AnyTask::Ctc($call),
            AnyTask::ContrastiveSpeech($task) => AnyTask::ContrastiveSpeech($call),
            AnyTask::Distillation($task) => AnyTask::Distillation($call),
            AnyTask::Preference($task) => AnyTask::Preference($call),
            AnyTask::Reward($task) => AnyTask::Reward($call),
            AnyTask::Grpo($task) => AnyTask::Grpo($call),
            AnyTask::ReplacedToken($task) => AnyTask::ReplacedToken($call),
            AnyTask::PermutedLm($task) => AnyTask::PermutedLm($call),
        }
    };
}

impl AnyTask {
    fn task(&self) -> &dyn Task {
        each!(self, task => task)
    }

    /// Returns the task with another run's task attached, frozen: as the teacher in distillation, as the reference in
    /// preference and reward optimisation. Other tasks are returned as they are.
    #[must_use]
    pub fn with_teacher(self, teacher: AnyTask) -> Self {
        match self {
            Self::Distillation(task) => Self::Distillation(task.with_teacher(teacher)),
            Self::Preference(task) => Self::Preference(task.with_reference(teacher)),
            Self::Grpo(task) => Self::Grpo(task.with_reference(teacher)),
            other => other,
        }
    }

    /// Returns the task with the judge that computes the rewards of completions, if it writes completions.
    #[must_use]
    pub fn with_judge(self, judge: Judge) -> Self {
        match self {
            Self::Grpo(task) => Self::Grpo(task.with_judge(judge)),
            other => other,
        }
    }

    /// Returns the task with the conversion of pixels to its teacher's normalisation, if it has a teacher.
    #[must_use]
    pub fn with_pixels(self, pixels: Option<Renormalise>) -> Self {
        match self {
            Self::Distillation(task) => Self::Distillation(task.with_pixels(pixels)),
            other => other,
        }
    }
}

impl Task for AnyTask {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        self.task().score(batch, pass, state)
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        self.task().inputs(batch)
    }

    fn seed(&self) -> u64 {
        self.task().seed()
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        self.task().sample(batch)
    }

    fn empty_state(&self) -> Option<ModelState> {
        self.task().empty_state()
    }

    fn networks(&self) -> Networks<'_> {
        self.task().networks()
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        self.task().as_distillable()
    }

    fn with_average_teacher(self, average: &Self) -> Self {
        match (self, average) {
            (Self::SelfDistillation(task), Self::SelfDistillation(average)) => {
                Self::SelfDistillation(task.with_teacher(average))
            }
            (other, _) => other,
        }
    }

    fn store_kept(&self, kept: &KeptVectors) {
        self.task().store_kept(kept);
    }
}

impl Module for AnyTask {
    fn collect_devices(&self, devices: Devices) -> Devices {
        each!(self, task => task.collect_devices(devices))
    }

    fn fork(self, device: &Device) -> Self {
        mapped!(self, task => task.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        mapped!(self, task => task.to_device(device))
    }

    fn train(self) -> Self {
        mapped!(self, task => task.train())
    }

    fn valid(&self) -> Self {
        mapped!(self, task => task.valid())
    }

    fn materialize(self) -> Self {
        mapped!(self, task => task.materialize())
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        each!(self, task => task.visit(visitor));
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        mapped!(self, task => task.map(mapper))
    }
}

impl fmt::Display for AnyTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each!(self, task => fmt::Display::fmt(task, f))
    }
}
