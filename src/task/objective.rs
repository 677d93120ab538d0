//! Whatever an experiment trains, as one type: burn-train and the step loop are compiled once for it.
//!
//! It stands aside in everything: parameters have the paths of the task itself, so that weights are found by the
//! same names whatever the objective.

use super::{
    CausalLm, ImageClassification, MaskedLm, PrefixLm, StepOutput, Task, TextClassification,
    Translation,
};
use crate::data::batch::Batch;
use crate::model::Decoder;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use std::fmt;

/// A network with what it is trained for.
#[derive(Clone, Debug)]
pub enum Objective {
    /// Next-token prediction.
    CausalLm(CausalLm),
    /// Masked tokens.
    MaskedLm(MaskedLm),
    /// Text to text with an encoder-decoder.
    Translation(Translation),
    /// Text to text with a decoder.
    PrefixLm(PrefixLm),
    /// Classes of texts.
    TextClassification(TextClassification),
    /// Classes of images.
    ImageClassification(ImageClassification),
}

/// The same call on whichever task it is.
macro_rules! each {
    ($objective:expr, $task:ident => $call:expr) => {
        match $objective {
            Objective::CausalLm($task) => $call,
            Objective::MaskedLm($task) => $call,
            Objective::Translation($task) => $call,
            Objective::PrefixLm($task) => $call,
            Objective::TextClassification($task) => $call,
            Objective::ImageClassification($task) => $call,
        }
    };
}

/// The same call, its result an objective again.
macro_rules! mapped {
    ($objective:expr, $task:ident => $call:expr) => {
        match $objective {
            Objective::CausalLm($task) => Objective::CausalLm($call),
            Objective::MaskedLm($task) => Objective::MaskedLm($call),
            Objective::Translation($task) => Objective::Translation($call),
            Objective::PrefixLm($task) => Objective::PrefixLm($call),
            Objective::TextClassification($task) => Objective::TextClassification($call),
            Objective::ImageClassification($task) => Objective::ImageClassification($call),
        }
    };
}

impl Objective {
    /// The network that continues texts, when it is one.
    pub fn language_model(&self) -> Option<&Decoder> {
        match self {
            Self::CausalLm(task) => Some(&task.model),
            Self::MaskedLm(_)
            | Self::Translation(_)
            | Self::PrefixLm(_)
            | Self::TextClassification(_)
            | Self::ImageClassification(_) => None,
        }
    }

    /// The network that tells the classes of images, when it is one.
    pub fn image_classifier(&self) -> Option<&ImageClassification> {
        match self {
            Self::ImageClassification(task) => Some(task),
            Self::CausalLm(_)
            | Self::MaskedLm(_)
            | Self::Translation(_)
            | Self::PrefixLm(_)
            | Self::TextClassification(_) => None,
        }
    }

    /// The network that guesses masked tokens, when it is one.
    pub fn masked_lm(&self) -> Option<&MaskedLm> {
        match self {
            Self::MaskedLm(task) => Some(task),
            Self::CausalLm(_)
            | Self::ImageClassification(_)
            | Self::Translation(_)
            | Self::PrefixLm(_)
            | Self::TextClassification(_) => None,
        }
    }

    /// The network that tells the classes of texts, when it is one.
    pub fn text_classifier(&self) -> Option<&TextClassification> {
        match self {
            Self::TextClassification(task) => Some(task),
            Self::CausalLm(_)
            | Self::MaskedLm(_)
            | Self::Translation(_)
            | Self::PrefixLm(_)
            | Self::ImageClassification(_) => None,
        }
    }
}

impl Module for Objective {
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

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each!(self, task => fmt::Display::fmt(task, f))
    }
}

impl TrainStep for Objective {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        each!(self, task => TrainStep::step(task, batch))
    }
}

impl InferenceStep for Objective {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> StepOutput {
        each!(self, task => InferenceStep::step(task, batch))
    }
}

impl Task for Objective {}
