//! The only entry into training: a job goes through burn-train's supervised training and learner.

use super::job::{Job, Observer, Outcome};
use super::strategy::StepStrategy;
use super::view::{NullLogger, Renderer, StepMetric, View, names};
use crate::error::Result;
use crate::task::{StepInput, TrainableModel};
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::optim::SgdConfig;
use burn::tensor::Device;
use burn::train::{Learner, SupervisedTraining, TrainingStrategy};
use std::sync::Arc;

/// Trains `model` until the job is done or stopped; `view` shows each step.
///
/// # Errors
/// [`Error::Interrupted`](crate::error::Error::Interrupted) if the run was asked to stop and is saved; divergence;
/// files that cannot be read or written.
pub fn run<M: TrainableModel>(
    model: M,
    job: Job<M>,
    observer: Box<dyn Observer<M>>,
    view: Box<dyn View>,
) -> Result<Outcome> {
    let folder = job.run.root().to_path_buf();
    let rounds = job.config.steps.div_ceil(job.config.evaluation_interval());
    let strategy = Arc::new(StepStrategy::new(job, observer));
    let training = SupervisedTraining::<M>::new(folder, Arc::new(NoLoader), Arc::new(NoLoader))
        .with_metric_logger(NullLogger)
        .with_application_logger(None)
        .num_epochs(rounds as usize)
        .metric_train_numeric(StepMetric::new(names::LOSS, |v| v.loss, false))
        .metric_valid_numeric(StepMetric::new(names::LOSS, |v| v.loss, false))
        .metric_train_numeric(StepMetric::new(
            names::GRADIENT_NORM,
            |v| v.shown.grad_norm,
            false,
        ))
        .metric_train_numeric(StepMetric::new(names::LEARNING_RATE, |v| v.shown.lr, false))
        .metric_train_numeric(StepMetric::new(names::SPEED, |v| v.shown.items_per_s, true))
        .with_training_strategy(TrainingStrategy::Custom(strategy.clone()));
    // A learner cannot be built without an optimizer and keeps it private; the strategy steps and saves the job's optimizer.
    let learner = Learner::new(model, SgdConfig::new().init(), 0.0);
    let result = training
        .renderer(Box::new(Renderer::new(view)))
        .launch(learner);
    let outcome = strategy.outcome();
    drop(result);
    outcome
}

/// An empty loader. burn-train's constructor wants one for each split and hands them to the strategy, which takes the
/// batches of a step from the job instead: a Burn loader can only begin at its first batch.
struct NoLoader;

impl DataLoader<StepInput> for NoLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<StepInput> + 'a> {
        Box::new(Nothing)
    }

    fn num_items(&self) -> usize {
        0
    }

    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<StepInput>> {
        Arc::new(Self)
    }

    fn slice(&self, _start: usize, _end: usize) -> Arc<dyn DataLoader<StepInput>> {
        Arc::new(Self)
    }
}

struct Nothing;

impl Iterator for Nothing {
    type Item = std::result::Result<StepInput, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}

impl DataLoaderIterator<StepInput> for Nothing {
    fn progress(&self) -> Progress {
        Progress::new(0, 0, None)
    }
}
