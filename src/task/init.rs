//! From an experiment's `[task]` and `[model]` to what is trained.

use super::{CausalLm, ImageClassification, Objective, TaskConfig};
use crate::data::{Gives, View};
use crate::error::{Error, Result};
use crate::model::{ModelConfig, ModelInputs};

impl TaskConfig {
    /// How texts are read for it.
    pub fn view(&self) -> View {
        match self {
            Self::CausalLm(_) | Self::ImageClassification(_) => View::AsItIs,
        }
    }

    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CausalLm(_) => super::causal_lm::KIND.kind,
            Self::ImageClassification(_) => super::image_classification::KIND.kind,
        }
    }

    /// The kinds of `[model]` that can learn it.
    pub fn models(&self) -> &'static [&'static str] {
        match self {
            Self::CausalLm(_) => &["decoder"],
            Self::ImageClassification(_) => &["vision", "resnet"],
        }
    }

    /// What the examples must be.
    pub fn reads(&self) -> Gives {
        match self {
            Self::CausalLm(_) => Gives::Text,
            Self::ImageClassification(_) => Gives::Images,
        }
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
        match (self, model) {
            (Self::CausalLm(c), ModelConfig::Decoder(m)) => {
                let network = m.init(inputs);
                Ok(Objective::CausalLm(CausalLm::new(
                    network,
                    c,
                    inputs.seed,
                    exact,
                )))
            }
            (
                Self::ImageClassification(c),
                ModelConfig::Vision(_) | ModelConfig::Resnet(_),
            ) => {
                let task = ImageClassification::new(c, model, inputs)?;
                Ok(Objective::ImageClassification(task))
            }
            (task, model) => Err(Error::usage(format!(
                "[task] kind = \"{}\" is not for [model] kind = \"{}\"; it is for {}",
                task.kind(),
                model.kind(),
                task.models().join(" and ")
            ))),
        }
    }
}
