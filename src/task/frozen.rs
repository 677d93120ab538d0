//! A network that is part of a task and is not trained: a teacher, a reward, features of another run.
//!
//! It shows visitors and mappers no parameters, so that no optimizer moves it, no average takes it in and no checkpoint
//! holds it; its weights come from where the task was built. Its tensors are never tracked: the inputs of its passes
//! must lie on a device without autodiff, and what it gives joins the loss through `Tensor::from_inner`.

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::Device;
use std::ops::Deref;
use std::path::Path;

/// A module in evaluation mode that shows no parameters.
#[derive(Clone, Debug)]
pub struct Frozen<M>(M);

impl<M: Module> Frozen<M> {
    /// The module with its weights as they are.
    pub fn new(module: M) -> Self {
        Self(module.valid())
    }
}

impl<M> Deref for Frozen<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.0
    }
}

impl<M: Module> Module for Frozen<M> {
    /// None: the devices of a task are those of what it trains.
    fn collect_devices(&self, devices: Devices) -> Devices {
        devices
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.fork(&device.clone().without_autodiff()))
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.to_device(&device.clone().without_autodiff()))
    }

    fn train(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn materialize(self) -> Self {
        Self(self.0.materialize())
    }

    fn visit<Visitor: ModuleVisitor>(&self, _visitor: &mut Visitor) {}

    fn map<Mapper: ModuleMapper>(self, _mapper: &mut Mapper) -> Self {
        self
    }
}

/// Another run whose network stands frozen beside the one that a task trains, by the keys of the task that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenRun<'a> {
    /// What it is for the task: `teacher` or `reference`.
    pub called: &'static str,
    /// The dotted key of its folder.
    pub key: &'static str,
    /// The dotted key of its checkpoint.
    pub checkpoint_key: &'static str,
    /// Its folder; `None` where it is the run that training begins from, at the checkpoint that it begins from.
    pub path: Option<&'a Path>,
    /// Which of its checkpoints; the best one when absent.
    pub checkpoint: Option<&'a str>,
    /// Whether evaluations of the trained run read it, too.
    pub in_evaluations: bool,
}

impl<M> ModuleDisplayDefault for Frozen<M> {
    fn content(&self, content: Content) -> Option<Content> {
        content.set_top_level_type("Frozen").optional()
    }
}

impl<M> ModuleDisplay for Frozen<M> {}
