//! The parameters of the task: those of its policy. What stands beside it is moved with it and shown to none.

use super::Grpo;
use crate::task::{AnyTask, CausalLm, Frozen};
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::Device;
use std::fmt;

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

impl Module for Grpo {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.policy.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.each(|policy| policy.fork(device), |task| task.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.each(
            |policy| policy.to_device(device),
            |task| task.to_device(device),
        )
    }

    fn train(self) -> Self {
        self.each(CausalLm::train, |task| task)
    }

    fn valid(&self) -> Self {
        self.clone().each(|policy| policy.valid(), |task| task)
    }

    fn materialize(self) -> Self {
        self.each(CausalLm::materialize, |task| task)
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        self.policy.visit(visitor);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        self.each(|policy| policy.map(mapper), |task| task)
    }
}

impl fmt::Display for Grpo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.policy, f)
    }
}
