//! Shared code of policies: language models that learn which of several texts are better, beside a frozen reference.
//! After training they are used like `causal_lm` models, and their weights have the same paths.

use super::facts::TaskFacts;
use super::{CausalLm, CausalLmConfig, FrozenRun, TaskConfig};
use crate::faults::TableFaults;
use crate::model::{AnyLanguageModel, BuildContext, ModelConfig};
use std::path::Path;

/// Builds the network as a plain language-model task; `None` if the model is not a language model.
pub(super) fn init(model: &ModelConfig, inputs: &BuildContext) -> Option<CausalLm> {
    let network = AnyLanguageModel::new(model, inputs)?;
    let plain = CausalLmConfig::default();
    Some(CausalLm::new(network, &plain, inputs.seed, false))
}

/// Returns the task as which other programs know a policy.
pub(super) fn published_as() -> Option<TaskConfig> {
    Some(TaskConfig::CausalLm(CausalLmConfig::default()))
}

/// Returns the command that uses a finished policy.
pub(super) fn command(run: &str, prompt: Option<&str>) -> Option<String> {
    CausalLmConfig::default().command(run, prompt)
}

/// The keys of a task that name its reference.
#[derive(Clone, Copy)]
pub(super) struct ReferenceKeys<'a> {
    /// Value of the key `reference`.
    pub path: Option<&'a Path>,
    /// Value of the key `reference_checkpoint`.
    pub checkpoint: Option<&'a str>,
}

impl<'a> ReferenceKeys<'a> {
    /// Returns the run that the keys name.
    pub(super) fn run(self, in_evaluations: bool) -> FrozenRun<'a> {
        FrozenRun {
            role: "reference",
            key: "task.reference",
            checkpoint_key: "task.reference_checkpoint",
            path: self.path,
            checkpoint: self.checkpoint,
            in_evaluations,
        }
    }

    /// Checks the keys and reports faults.
    pub(super) fn faults(self, at: &mut TableFaults) {
        if self.path.is_none() && self.checkpoint.is_some() {
            let rule = "reference_checkpoint has no effect without reference: the reference is then the checkpoint that training \
                        begins from ([init] checkpoint); remove it";
            at.fault(&["reference_checkpoint"], rule);
        }
    }
}
