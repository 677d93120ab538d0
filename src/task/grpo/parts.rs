//! The parameters of the task: those of its policy. What stands beside it is moved with it and shown to none.

use super::Grpo;
use crate::task::around::shows_alone;
use crate::task::{AnyTask, CausalLm, Frozen};

impl Grpo {
    /// The same with another policy, and what stands beside it.
    fn each(
        self,
        policy: impl FnOnce(CausalLm) -> CausalLm,
        frozen: impl Fn(Frozen<AnyTask>) -> Frozen<AnyTask>,
    ) -> Self {
        Self {
            policy: policy(self.policy),
            reference: self.reference.map(|task| Box::new(frozen(*task))),
            judge: self.judge.map(|judge| Box::new(judge.each(&frozen))),
            ..self
        }
    }
}

shows_alone!(Grpo, policy);
