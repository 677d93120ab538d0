//! The parameters of the task are those of its policy. Frozen networks move between devices with it, but are not
//! exposed.

use super::Grpo;
use crate::task::wrapper::shows_alone;
use crate::task::{AnyTask, CausalLm, Frozen};

impl Grpo {
    /// Applies one function to the policy, and another one to the frozen networks beside it.
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
