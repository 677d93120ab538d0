//! A network that is part of a task and is not trained: a teacher, a reward model, features of another run.
//!
//! It exposes no parameters to visitors and mappers, so that no optimizer changes it, no weight average includes it and
//! no checkpoint holds it. Its weights are set where the task is built. Its tensors are never tracked: the inputs of
//! its passes must lie on a device without autodiff, and its outputs join the loss through `Tensor::from_inner`.

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::Device;
use std::ops::Deref;
use std::path::Path;

/// A module in evaluation mode that exposes no parameters.
#[derive(Clone, Debug)]
pub struct Frozen<M>(M);

impl<M: Module> Frozen<M> {
    /// Freezes a module with its present weights.
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
    /// Adds no devices: the devices of a task are those of its trained parameters.
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

/// Another run whose network is frozen beside the trained network, with the keys of the task that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenRun<'a> {
    /// The run's function in the task: `teacher` or `reference`.
    pub role: &'static str,
    /// Dotted key of the run's folder.
    pub key: &'static str,
    /// Dotted key of the run's checkpoint.
    pub checkpoint_key: &'static str,
    /// Folder of the run; `None` if it is the run that training starts from, at the same checkpoint.
    pub path: Option<&'a Path>,
    /// Name of the checkpoint; the best one when absent.
    pub checkpoint: Option<&'a str>,
    /// Whether evaluations of the trained run read it too.
    pub in_evaluations: bool,
}

impl<M> ModuleDisplayDefault for Frozen<M> {
    fn content(&self, content: Content) -> Option<Content> {
        content.set_top_level_type("Frozen").optional()
    }
}

impl<M> ModuleDisplay for Frozen<M> {}
