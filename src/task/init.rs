//! From an experiment's `[task]` and `[model]` to what is trained.

use super::{CausalLm, Objective, TaskConfig};
use crate::data::View;
use crate::error::Result;
use crate::model::{ModelConfig, ModelInputs};

impl TaskConfig {
    /// How texts are read for it.
    pub fn view(&self) -> View {
        match self {
            Self::CausalLm(_) => View::AsItIs,
        }
    }

    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CausalLm(_) => super::causal_lm::KIND.kind,
        }
    }

    /// The kinds of `[model]` that can learn it.
    pub fn models(&self) -> &'static [&'static str] {
        match self {
            Self::CausalLm(_) => &["decoder"],
        }
    }

    /// The network with its objective; parameters are drawn when they are first used. `exact` says that rows have
    /// one right answer, so that the share of exact ones is a metric.
    ///
    /// # Errors
    /// A model that cannot learn the task.
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
        }
    }
}
