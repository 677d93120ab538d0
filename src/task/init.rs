//! Builds the trained task from an experiment's `[task]` and `[model]`.

use super::grpo::{CompletionReward, RunReward};
use super::{
    DistillationConfig, FrozenRun, GrpoConfig, Objective, PreferenceConfig, RewardConfig,
    TaskConfig,
};
use crate::data::{ExampleForm, View};
use crate::error::{Error, Result};
use crate::model::demand::kinds_serving;
use crate::model::{BuildContext, ModelConfig, Use};
use std::path::{Path, PathBuf};

impl TaskConfig {
    /// Returns the value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        self.facts().kind().kind
    }

    /// Returns what the task uses a network for.
    pub fn network_use(&self) -> Use {
        self.facts().demand().used_for
    }

    /// Returns the kinds of `[model]` that can learn this task.
    pub fn models(&self) -> Vec<&'static str> {
        kinds_serving(self.network_use())
    }

    /// Returns whether evaluations write texts and compare them with the data's texts.
    pub fn compares_texts(&self) -> bool {
        match self.network_use() {
            Use::TextToText => self.example_form() == ExampleForm::Pairs,
            Use::ImageToText | Use::SpeechToText | Use::SpeechCharacters => true,
            _ => false,
        }
    }

    /// Returns the form of the training examples.
    pub fn example_form(&self) -> ExampleForm {
        self.facts().example_form()
    }

    /// Returns whether exp(training loss) is a perplexity: the loss must be of tokens, without label smoothing, which
    /// would add to it.
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
            | Self::ContrastiveSpeech(_)
            | Self::Preference(_)
            | Self::Reward(_)
            | Self::Grpo(_)
            | Self::ReplacedToken(_) => false,
            Self::Distillation(c) => c.of.has_perplexity(),
        }
    }

    /// Returns the distillation settings, if this is a distillation.
    pub fn distillation(&self) -> Option<&DistillationConfig> {
        match self {
            Self::Distillation(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the GRPO settings, if this is GRPO.
    pub fn grpo(&self) -> Option<&GrpoConfig> {
        match self {
            Self::Grpo(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the run whose network is frozen beside the trained one: a teacher, or the reference of preference or
    /// reward optimisation.
    pub fn frozen_run(&self) -> Option<FrozenRun<'_>> {
        match self {
            Self::Distillation(c) => Some(c.frozen_run()),
            Self::Preference(c) => Some(c.frozen_run()),
            Self::Grpo(c) => c.frozen_run(),
            _ => None,
        }
    }

    /// Returns the key that names the frozen run, and its value.
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

    /// Returns the task with the paths of other runs mapped by `place`.
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
                    CompletionReward::Run(run) => CompletionReward::Run(RunReward {
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

    /// Returns how texts are presented to the task.
    pub fn view(&self) -> View {
        self.facts().view()
    }

    /// Returns the task as a trained model uses it: without the parts that are only used in training.
    #[must_use]
    pub fn without_training_parts(&self) -> Self {
        self.facts()
            .without_training_parts()
            .unwrap_or_else(|| self.clone())
    }

    /// Returns the reward task with the same parameters, if this task predicts one number for each text.
    #[must_use]
    pub fn as_reward(&self) -> Option<Self> {
        match self {
            Self::Regression(numbers) => RewardConfig::from_regression(numbers).map(Self::Reward),
            _ => None,
        }
    }

    /// Returns the task as which other programs know its networks.
    #[must_use]
    pub fn published_as(&self) -> Self {
        self.facts().published_as().unwrap_or_else(|| self.clone())
    }

    /// Builds the network with its objective; parameters are drawn when they are first used. `exact` says that rows
    /// have one right answer, so that the share of exactly right rows is a metric.
    ///
    /// # Errors
    /// If the model cannot learn the task or cannot read the data.
    pub fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Objective> {
        if let Some(misfit) = model.vocabulary_fault(inputs.shape.vocab_size) {
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
