//! From an experiment's `[task]` and `[model]` to what is trained.

use super::{
    AnyTask, CausalLm, ImageClassification, MaskedLm, Objective, PrefixLm, TaskConfig,
    TextClassification, Translation, causal_lm, image_classification, masked_lm,
    text_classification, translation,
};
use crate::data::{Gives, View};
use crate::error::{Error, Result};
use crate::model::{ModelConfig, ModelInputs, TextModel};

impl TaskConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CausalLm(_) => causal_lm::KIND.kind,
            Self::MaskedLm(_) => masked_lm::KIND.kind,
            Self::Translation(_) => translation::KIND.kind,
            Self::TextClassification(_) => text_classification::KIND.kind,
            Self::ImageClassification(_) => image_classification::KIND.kind,
        }
    }

    /// The kinds of `[model]` that can learn it.
    pub fn models(&self) -> &'static [&'static str] {
        match self {
            Self::CausalLm(_) => &["decoder", "recurrent"],
            Self::MaskedLm(_) => &["encoder"],
            Self::TextClassification(_) => &["encoder", "recurrent"],
            Self::Translation(_) => &["encoder_decoder", "decoder", "recurrent"],
            Self::ImageClassification(_) => &["vision", "resnet"],
        }
    }

    /// What the examples must be that it is learned from.
    pub fn reads(&self) -> Gives {
        match self {
            Self::CausalLm(_) | Self::MaskedLm(_) => Gives::Text,
            Self::Translation(_) => Gives::Pairs,
            Self::TextClassification(_) => Gives::Labelled,
            Self::ImageClassification(_) => Gives::Images,
        }
    }

    /// How texts are read for it.
    pub fn view(&self) -> View {
        match self {
            Self::MaskedLm(c) => View::Masked(c.view()),
            Self::CausalLm(_)
            | Self::Translation(_)
            | Self::TextClassification(_)
            | Self::ImageClassification(_) => View::AsItIs,
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
        let seed = inputs.seed;
        Ok(Objective(match (self, model) {
            (Self::CausalLm(c), ModelConfig::Decoder(m)) => {
                AnyTask::CausalLm(CausalLm::new(m.init(inputs), c, seed, exact))
            }
            (Self::MaskedLm(c), ModelConfig::Encoder(m)) => {
                AnyTask::MaskedLm(MaskedLm::new(m, c, inputs))
            }
            (Self::Translation(c), ModelConfig::EncoderDecoder(m)) => {
                AnyTask::Translation(Translation::new(m.init(inputs), c, seed))
            }
            (Self::Translation(c), ModelConfig::Decoder(m)) => {
                AnyTask::PrefixLm(PrefixLm::new(m, c, inputs))
            }
            (Self::TextClassification(c), ModelConfig::Encoder(m)) => {
                let (network, d) = (TextModel::Encoder(m.init(inputs)), m.stack.d_model);
                let init = &m.stack.init;
                AnyTask::TextClassification(TextClassification::new(network, d, init, c, inputs))
            }
            (Self::CausalLm(c), ModelConfig::Recurrent(m)) => {
                AnyTask::RecurrentLm(CausalLm::new(m.language_model(inputs), c, seed, exact))
            }
            (Self::TextClassification(c), ModelConfig::Recurrent(m)) => {
                let (network, d) = (TextModel::Recurrent(m.reader(inputs)), m.d_model);
                AnyTask::TextClassification(TextClassification::new(network, d, &m.init, c, inputs))
            }
            (Self::Translation(c), ModelConfig::Recurrent(m)) => {
                AnyTask::RecurrentTranslation(Translation::new(m.encoder_decoder(inputs), c, seed))
            }
            (Self::ImageClassification(c), ModelConfig::Vision(_) | ModelConfig::Resnet(_)) => {
                AnyTask::ImageClassification(ImageClassification::new(model, c, inputs)?)
            }
            (task, model) => {
                return Err(Error::usage(format!(
                    "[task] kind = \"{}\" is not for [model] kind = \"{}\"; it is for {}",
                    task.kind(),
                    model.kind(),
                    task.models().join(" and ")
                )));
            }
        }))
    }
}
