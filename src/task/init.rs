//! From an experiment's `[task]` and `[model]` to what is trained.

use super::grpo::{RewardOf, RunReward};
use super::{
    DistillationConfig, FrozenRun, GrpoConfig, Objective, PreferenceConfig, RewardConfig,
    TaskConfig,
};
use crate::data::{Gives, View};
use crate::error::{Error, Result};
use crate::model::demand::serving;
use crate::model::{ModelConfig, ModelInputs, Use};
use std::path::{Path, PathBuf};

impl TaskConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        self.facts().kind().kind
    }

    /// Its use for a network.
    pub fn uses(&self) -> Use {
        self.facts().demand().used_for
    }

    /// The kinds of `[model]` that can learn it.
    pub fn models(&self) -> Vec<&'static str> {
        serving(self.uses())
    }

    /// Whether evaluations write texts and compare them with those of the data.
    pub fn compares_texts(&self) -> bool {
        match self.uses() {
            Use::TextToText => self.reads() == Gives::Pairs,
            Use::ImageToText | Use::SpeechToText | Use::SpeechCharacters => true,
            _ => false,
        }
    }

    /// The form of the examples that it is learned from.
    pub fn reads(&self) -> Gives {
        self.facts().reads()
    }

    /// Whether e to the power of the training loss is a perplexity: the loss is of tokens, and without label smoothing,
    /// which adds to it.
    pub fn has_perplexity(&self) -> bool {
        match self {
            Self::CausalLm(c) => c.label_smoothing == 0.0,
            Self::Translation(c) => c.label_smoothing == 0.0,
            Self::Captioning(c) => c.label_smoothing == 0.0,
            Self::Transcription(c) => c.label_smoothing == 0.0,
            Self::MaskedLm(_)
            | Self::PermutedLm(_)
            | Self::SpanCorruption(_)
            | Self::Denoising(_) => true,
            Self::ImageClassification(_)
            | Self::MaskedImage(_)
            | Self::SelfDistillation(_)
            | Self::ImageText(_)
            | Self::TextClassification(_)
            | Self::MultiLabel(_)
            | Self::TokenClassification(_)
            | Self::Regression(_)
            | Self::TextEmbedding(_)
            | Self::QuestionAnswering(_)
            | Self::Ctc(_)
            | Self::Preference(_)
            | Self::Reward(_)
            | Self::Grpo(_)
            | Self::ReplacedToken(_) => false,
            Self::Distillation(c) => c.of.has_perplexity(),
        }
    }

    /// The distillation, when it is one.
    pub fn distillation(&self) -> Option<&DistillationConfig> {
        match self {
            Self::Distillation(c) => Some(c),
            _ => None,
        }
    }

    /// The optimisation of completions by their rewards, when it is one.
    pub fn grpo(&self) -> Option<&GrpoConfig> {
        match self {
            Self::Grpo(c) => Some(c),
            _ => None,
        }
    }

    /// The run whose network stands frozen beside its own: a teacher, or the reference of preferences.
    pub fn frozen_run(&self) -> Option<FrozenRun<'_>> {
        match self {
            Self::Distillation(c) => Some(c.frozen_run()),
            Self::Preference(c) => Some(c.frozen_run()),
            Self::Grpo(c) => c.frozen_run(),
            _ => None,
        }
    }

    /// The key that names that run, with its value.
    pub fn frozen_run_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        let key = self.frozen_run()?.key;
        let path = match self {
            Self::Distillation(c) => Some(&mut c.teacher),
            Self::Preference(c) => c.reference.as_mut(),
            Self::Grpo(c) => c.reference.as_mut(),
            _ => None,
        };
        path.map(|path| (key, path))
    }

    /// The same with the path to such a run as `place` says.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Distillation(c) => Self::Distillation(DistillationConfig {
                teacher: place(&c.teacher),
                ..c.clone()
            }),
            Self::Preference(c) => Self::Preference(PreferenceConfig {
                reference: c.reference.as_deref().map(place),
                ..c.clone()
            }),
            Self::Grpo(c) => Self::Grpo(GrpoConfig {
                reference: c.reference.as_deref().map(&place),
                reward: match &c.reward {
                    RewardOf::Run(run) => RewardOf::Run(RunReward {
                        path: place(&run.path),
                        ..run.clone()
                    }),
                    other => other.clone(),
                },
                ..c.clone()
            }),
            other => other.clone(),
        }
    }

    /// How texts are read for it.
    pub fn view(&self) -> View {
        self.facts().view()
    }

    /// The task as a trained model is used: without the parts that training alone uses.
    #[must_use]
    pub fn of_use(&self) -> Self {
        self.facts().of_use().unwrap_or_else(|| self.clone())
    }

    /// The task of rewards that has the parameters of this one, where it tells a number of each text.
    #[must_use]
    pub fn rewarding(&self) -> Option<Self> {
        match self {
            Self::Regression(numbers) => RewardConfig::of_numbers(numbers).map(Self::Reward),
            _ => None,
        }
    }

    /// The task under which other programs know its networks.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        self.facts().elsewhere().unwrap_or_else(|| self.clone())
    }

    /// The network with its objective; parameters are drawn when they are first used. `exact` says that rows have
    /// one right answer, so that the share of exact ones is a metric.
    ///
    /// # Errors
    /// A model that cannot learn the task, or cannot read the data.
    pub fn init(
        &self,
        model: &ModelConfig,
        inputs: &ModelInputs,
        exact: bool,
    ) -> Result<Objective> {
        if let Some(misfit) = model.vocabulary_misfit(inputs.shape.vocab_size) {
            return Err(Error::usage(misfit));
        }
        let task = self.facts().init(model, inputs, exact)?;
        let task = task.ok_or_else(|| {
            Error::usage(format!(
                "[task] kind = \"{}\" is not for [model] kind = \"{}\"; it is for {}",
                self.kind(),
                model.kind(),
                self.models().join(" and ")
            ))
        })?;
        Ok(Objective(task))
    }
}
