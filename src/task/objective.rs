//! A task as burn-train trains it: the one place that divides losses and runs the backward pass.
//!
//! It adds no segment to the paths of parameters: they are those of the task itself.

use super::{Networks, StepOutput, Task, scored};
use crate::data::batch::Batch;
use crate::kernel::{self, profile};
use crate::nn::bounds;
use crate::nn::branches::Branches;
use crate::nn::pass::{Draws, Pass};
use crate::stack::state::ModelState;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, TensorData};
use burn::train::{InferenceStep, LearnerModel, TrainOutput, TrainStep};
use std::fmt;
use std::ops::Deref;

/// A task as burn-train trains it; one of the tasks of `[task]` where none is named.
#[derive(Clone, Debug)]
pub struct Objective<T = super::AnyTask>(pub T);

/// What one step reads.
#[derive(Clone, Debug)]
pub struct StepInput {
    /// The rows.
    pub batch: Batch,
    /// What the networks kept of the batch before, row by row; `None` where batches are independent of each other.
    pub state: Option<ModelState>,
}

impl From<Batch> for StepInput {
    fn from(batch: Batch) -> Self {
        Self { batch, state: None }
    }
}

impl StepInput {
    /// Empties the rows that begin a text with this batch.
    fn begun(self) -> (Batch, Option<ModelState>) {
        let Self { batch, mut state } = self;
        if let (Some(state), Some(begins)) = (&mut state, &batch.begins)
            && begins.contains(&true)
        {
            let kept: Vec<bool> = begins.iter().map(|begins| !begins).collect();
            state.reset(&kept);
        }
        (batch, state)
    }
}

/// What the step loop trains: burn-train's model whose steps read a [`StepInput`] and give a [`StepOutput`].
pub trait Trained:
    LearnerModel
    + TrainStep<Input = StepInput, Output = StepOutput>
    + InferenceStep<Input = StepInput, Output = StepOutput>
{
    /// What its networks carry from segment to segment, before the first one; `None` when they keep nothing.
    fn empty_state(&self) -> Option<ModelState>;

    /// The same with the average of its weights beside it, where it learns from that.
    #[must_use]
    fn beside_average(self, average: &Self) -> Self;

    /// Takes in what a step that was taken has told for later ones.
    fn keep(&self, output: &StepOutput);

    /// What a step reads of a batch, where nothing else of the batch differs from step to step ([`Task::inputs`]).
    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>>;
}

impl<T: Task + Module + fmt::Display + 'static> Trained for Objective<T> {
    fn empty_state(&self) -> Option<ModelState> {
        self.0.empty_state()
    }

    fn beside_average(self, average: &Self) -> Self {
        Self(self.0.beside_average(&average.0))
    }

    fn keep(&self, output: &StepOutput) {
        if let Some(kept) = &output.kept {
            self.0.keep(kept);
        }
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let alone = batch.begins.is_none() && batch.watch.is_none();
        let mut inputs = self.0.inputs(batch).filter(|_| alone)?;
        inputs.push(scored::factor(batch));
        Some(inputs)
    }
}

impl<T: Task> Objective<T> {
    /// Its networks by what they are used for once they are trained.
    pub fn networks(&self) -> Networks<'_> {
        self.0.networks()
    }

    /// The pass that trains on a batch: its draws are those of the batch's rows, and it is watched when the batch says
    /// so.
    fn training_pass(&self, batch: &Batch) -> Pass {
        let pass = Pass::training(Draws {
            seed: self.0.seed(),
            step: batch.step,
            first_row: batch.first_row as u64,
        });
        let pass = match batch.recompute {
            true => pass.recomputing(),
            false => pass,
        };
        match batch.watch {
            Some(wanted) => pass.watched(wanted, self.0.sample(batch)),
            None => pass,
        }
    }
}

impl<T: Task + Module> Objective<T> {
    /// `branches` with the residual connections of this batch's pass, without dropout.
    pub fn measured(&self, batch: &Batch, branches: Branches) -> Branches {
        let pass = evaluating(self.0.seed(), batch).measuring(branches);
        self.0.valid().score(batch, &pass, None);
        pass.take_branches()
    }

    /// This batch's share of the loss of its step, and the gradients of it, without dropout. The parameters must be
    /// tracked.
    pub fn differentiated(&self, batch: &Batch) -> (f64, GradientsParams) {
        let pass = evaluating(self.0.seed(), batch);
        let scored = self.0.score(batch, &pass, None);
        let loss = scored.differentiated(batch, &pass.losses());
        let value = kernel::numbers(vec![loss.clone()]).into_iter().sum::<f32>();
        let gradients = GradientsParams::from_grads(loss.backward(), self);
        (f64::from(value), gradients)
    }
}

/// A pass of an evaluation. The samples of an example are the same whatever batch it is in, and no training step has them.
fn evaluating(seed: u64, batch: &Batch) -> Pass {
    Pass::evaluation().sampling(Draws {
        seed,
        step: u64::MAX,
        first_row: batch.samples.first().copied().unwrap_or(0),
    })
}

impl<T: Task + Module> TrainStep for Objective<T> {
    type Input = StepInput;
    type Output = StepOutput;

    fn step(&self, input: StepInput) -> TrainOutput<StepOutput> {
        let (batch, mut state) = input.begun();
        let pass = self.training_pass(&batch);
        let scored = self.0.score(&batch, &pass, state.as_mut());
        let loss = scored.differentiated(&batch, &pass.losses());
        let mut output = scored.output(&batch, pass.losses());
        output.readings = pass.readings();
        output.state = state.map(passed_on);
        let gradients = profile::timed(profile::BACKWARD, || loss.backward());
        TrainOutput::new(self, gradients, output)
    }

    /// An update, after which parameters that left their range are put back to its end.
    fn optimize(
        self,
        optimizer: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        gradients: GradientsParams,
    ) -> Self {
        bounds::within(optimizer.step(lr, self, gradients), &super::BOUNDS)
    }
}

impl<T: Task> InferenceStep for Objective<T> {
    type Input = StepInput;
    type Output = StepOutput;

    fn step(&self, input: StepInput) -> StepOutput {
        let (batch, mut state) = input.begun();
        let pass = evaluating(self.0.seed(), &batch);
        let scored = self.0.score(&batch, &pass, state.as_mut());
        StepOutput {
            state: state.map(passed_on),
            ..scored.output(&batch, pass.losses())
        }
    }
}

/// A state as the next segment gets it: without the gradients of this one, and with positions counted anew, since rows
/// begin their texts at different steps.
fn passed_on(mut state: ModelState) -> ModelState {
    state.detach();
    state.seen = 0;
    state
}

impl<T> Deref for Objective<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Module> Module for Objective<T> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.to_device(device))
    }

    fn train(self) -> Self {
        Self(self.0.train())
    }

    fn valid(&self) -> Self {
        Self(self.0.valid())
    }

    fn materialize(self) -> Self {
        Self(self.0.materialize())
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        self.0.visit(visitor);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        Self(self.0.map(mapper))
    }
}

impl<T: fmt::Display> fmt::Display for Objective<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
