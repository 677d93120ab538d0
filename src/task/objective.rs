//! Adapts a task to burn-train: the only place that divides losses and runs the backward pass.
//!
//! The adapter adds no segment to parameter paths; they are those of the task itself.

use super::{Networks, StepOutput, Task, scored};
use crate::data::batch::Batch;
use crate::kernel::{self, profile};
use crate::nn::bounds;
use crate::nn::branches::ResidualMoments;
use crate::nn::pass::{Draws, Pass};
use crate::stack::state::ModelState;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, TensorData};
use burn::train::{InferenceStep, LearnerModel, TrainOutput, TrainStep};
use std::fmt;
use std::ops::Deref;

/// A task as burn-train trains it; by default any of the tasks of `[task]`.
#[derive(Clone, Debug)]
pub struct Objective<T = super::AnyTask>(pub T);

/// Input of one step.
#[derive(Clone, Debug)]
pub struct StepInput {
    /// The rows of the step.
    pub batch: Batch,
    /// State that the networks kept from the previous batch, row by row; `None` if batches are independent of each
    /// other.
    pub state: Option<ModelState>,
}

impl From<Batch> for StepInput {
    fn from(batch: Batch) -> Self {
        Self { batch, state: None }
    }
}

impl StepInput {
    /// Resets the state of the rows that begin a new text in this batch.
    fn reset_new_rows(self) -> (Batch, Option<ModelState>) {
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

/// The model that the step loop trains: a burn-train model whose steps read a [`StepInput`] and return a
/// [`StepOutput`].
pub trait TrainableModel:
    LearnerModel
    + TrainStep<Input = StepInput, Output = StepOutput>
    + InferenceStep<Input = StepInput, Output = StepOutput>
{
    /// Returns the initial state that the networks carry from segment to segment; `None` if they carry nothing.
    fn empty_state(&self) -> Option<ModelState>;

    /// Returns the model with the average of its weights attached as its teacher, if it learns from that average.
    #[must_use]
    fn with_average_teacher(self, average: &Self) -> Self;

    /// Takes in the vectors that a completed step kept for later steps.
    fn store_kept(&self, output: &StepOutput);

    /// Returns the arrays that a step reads of a batch, if nothing else in the batch differs from step to step
    /// ([`Task::inputs`]).
    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>>;
}

impl<T: Task + Module + fmt::Display + 'static> TrainableModel for Objective<T> {
    fn empty_state(&self) -> Option<ModelState> {
        self.0.empty_state()
    }

    fn with_average_teacher(self, average: &Self) -> Self {
        Self(self.0.with_average_teacher(&average.0))
    }

    fn store_kept(&self, output: &StepOutput) {
        if let Some(kept) = &output.kept {
            self.0.store_kept(kept);
        }
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let alone = batch.begins.is_none() && batch.watch.is_none();
        let mut inputs = self.0.inputs(batch).filter(|_| alone)?;
        inputs.push(scored::mean_factor(batch));
        Some(inputs)
    }
}

impl<T: Task> Objective<T> {
    /// Returns the networks by their use after training.
    pub fn networks(&self) -> Networks<'_> {
        self.0.networks()
    }

    /// Returns the training pass of a batch: its random draws belong to the batch's rows, and it is probed if the batch
    /// asks for it.
    fn training_pass(&self, batch: &Batch) -> Pass {
        let pass = Pass::training(Draws {
            seed: self.0.seed(),
            step: batch.step,
            first_row: batch.first_row as u64,
        });
        let pass = match batch.recompute {
            true => pass.with_recomputation(),
            false => pass,
        };
        match batch.watch {
            Some(wanted) => pass.with_probe(wanted, self.0.sample(batch)),
            None => pass,
        }
    }
}

impl<T: Task + Module> Objective<T> {
    /// Measures the residual connections in this batch's pass, without dropout, and returns `branches` with them.
    pub fn measure_residuals(&self, batch: &Batch, branches: ResidualMoments) -> ResidualMoments {
        let pass = evaluating(self.0.seed(), batch).with_branch_measurement(branches);
        self.0.valid().score(batch, &pass, None);
        pass.take_branches()
    }

    /// Returns this batch's share of its step's loss, and the gradients of that share, without dropout. The parameters
    /// must be tracked.
    pub fn loss_and_gradients(&self, batch: &Batch) -> (f64, GradientsParams) {
        let pass = evaluating(self.0.seed(), batch);
        let scored = self.0.score(batch, &pass, None);
        let loss = scored.training_loss(batch, &pass.losses());
        let value = kernel::read_scalars(vec![loss.clone()])
            .into_iter()
            .sum::<f32>();
        let gradients = GradientsParams::from_grads(loss.backward(), self);
        (f64::from(value), gradients)
    }
}

/// Returns an evaluation pass. An example gets the same random samples in whichever batch it is, and no training step
/// shares them.
fn evaluating(seed: u64, batch: &Batch) -> Pass {
    Pass::evaluation().with_samples(Draws {
        seed,
        step: u64::MAX,
        first_row: batch.samples.first().copied().unwrap_or(0),
    })
}

impl<T: Task + Module> TrainStep for Objective<T> {
    type Input = StepInput;
    type Output = StepOutput;

    fn step(&self, input: StepInput) -> TrainOutput<StepOutput> {
        let (batch, mut state) = input.reset_new_rows();
        let pass = self.training_pass(&batch);
        let scored = self.0.score(&batch, &pass, state.as_mut());
        let loss = scored.training_loss(&batch, &pass.losses());
        let mut output = scored.output(&batch, pass.losses());
        output.readings = pass.readings();
        output.state = state.map(detach_state);
        let gradients = profile::timed(profile::BACKWARD, || loss.backward());
        TrainOutput::new(self, gradients, output)
    }

    /// Applies an update, then clamps parameters that left their range to its nearest end.
    fn optimize(
        self,
        optimizer: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        gradients: GradientsParams,
    ) -> Self {
        bounds::clamp_to_bounds(optimizer.step(lr, self, gradients), &super::BOUNDS)
    }
}

impl<T: Task> InferenceStep for Objective<T> {
    type Input = StepInput;
    type Output = StepOutput;

    fn step(&self, input: StepInput) -> StepOutput {
        let (batch, mut state) = input.reset_new_rows();
        let pass = evaluating(self.0.seed(), &batch);
        let scored = self.0.score(&batch, &pass, state.as_mut());
        StepOutput {
            state: state.map(detach_state),
            ..scored.output(&batch, pass.losses())
        }
    }
}

/// Returns the state as the next segment receives it: detached from this segment's gradients, and with positions
/// counted from 0 again, since rows begin their texts at different steps.
fn detach_state(mut state: ModelState) -> ModelState {
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
