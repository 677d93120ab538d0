//! Policies: language models that learn which of several texts are better, beside a frozen reference. Once trained they are used as
//! those of `causal_lm` are, and their weights have the same paths.

use super::facts::TaskFacts;
use super::{CausalLm, CausalLmConfig, FrozenRun, TaskConfig};
use crate::faults::TableFaults;
use crate::model::{AnyLanguageModel, ModelConfig, ModelInputs};
use std::path::Path;

/// The network, which scores plain texts by itself; `None` for a model that is no language model.
pub(super) fn init(model: &ModelConfig, inputs: &ModelInputs) -> Option<CausalLm> {
    let network = AnyLanguageModel::new(model, inputs)?;
    let plain = CausalLmConfig::default();
    Some(CausalLm::new(network, &plain, inputs.seed, false))
}

/// The task under which other programs know a policy.
pub(super) fn elsewhere() -> Option<TaskConfig> {
    Some(TaskConfig::CausalLm(CausalLmConfig::default()))
}

/// The command that puts a finished policy to use.
pub(super) fn command(run: &str, prompt: Option<&str>) -> Option<String> {
    CausalLmConfig::default().command(run, prompt)
}

/// The keys of a task that name its reference.
#[derive(Clone, Copy)]
pub(super) struct Reference<'a> {
    /// `reference`.
    pub path: Option<&'a Path>,
    /// `reference_checkpoint`.
    pub checkpoint: Option<&'a str>,
}

impl<'a> Reference<'a> {
    /// The run that they name.
    pub(super) fn run(self, in_evaluations: bool) -> FrozenRun<'a> {
        FrozenRun {
            called: "reference",
            key: "task.reference",
            checkpoint_key: "task.reference_checkpoint",
            path: self.path,
            checkpoint: self.checkpoint,
            in_evaluations,
        }
    }

    /// Faults of a task that has a reference.
    pub(super) fn faults(self, at: &mut TableFaults) {
        if self.path.is_none() && self.checkpoint.is_some() {
            let rule = "reference_checkpoint has no effect without reference: the reference is then the checkpoint that training \
                        begins from ([init] checkpoint); leave it out";
            at.fault(&["reference_checkpoint"], rule);
        }
    }
}
