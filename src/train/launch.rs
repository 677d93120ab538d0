//! The one entry into training: a job goes through burn-train's supervised training and learner.

use super::job::{Job, Observer, Outcome};
use super::strategy::StepStrategy;
use super::view::{NoFiles, Silent, StepMetric, View};
use crate::data::burn_adapters::{EvalLoader, TrainLoader};
use crate::error::Result;
use crate::task::Task;
use burn::optim::SgdConfig;
use burn::train::{Learner, SupervisedTraining, TrainingStrategy};
use std::sync::Arc;

/// Trains `model` until the job is done or stopped.
///
/// # Errors
/// [`Error::Interrupted`](crate::error::Error::Interrupted) when it was asked to stop and is saved; divergence;
/// files that cannot be read or written.
pub fn run<M: Task>(
    model: M,
    job: Job<M>,
    observer: Box<dyn Observer<M>>,
    view: View,
    label: &str,
) -> Result<Outcome> {
    let folder = job.run.root().to_path_buf();
    let loader = Arc::new(TrainLoader {
        source: job.train.clone(),
        seed: job.seed,
        size: job.config.size(),
        micro_batch_size: job.config.micro_batch_size(),
        from_step: job.state.step,
        to_step: job.config.steps,
    });
    let valid = Arc::new(EvalLoader {
        source: match &job.valid {
            Some(valid) => valid.source.clone(),
            None => job.train.clone(),
        },
        batch_size: job.config.eval_batch_size(),
    });
    let rounds = match job.config.eval_every {
        Some(every) => job.config.steps.div_ceil(every.max(1)),
        None => 1,
    };
    let strategy = Arc::new(StepStrategy::new(job, observer));
    let training = SupervisedTraining::<M>::new(folder, loader, valid)
        .with_metric_logger(NoFiles)
        .with_application_logger(None)
        .num_epochs(rounds as usize)
        .label(label)
        .metric_train_numeric(StepMetric::new("Loss", |v| v.loss, false))
        .metric_valid_numeric(StepMetric::new("Loss", |v| v.loss, false))
        .metric_train_numeric(StepMetric::new("Perplexity", |v| v.loss.exp(), false))
        .metric_valid_numeric(StepMetric::new("Perplexity", |v| v.loss.exp(), false))
        .metric_train_numeric(StepMetric::new(
            "Gradient norm",
            |v| v.shown.grad_norm,
            false,
        ))
        .metric_train_numeric(StepMetric::new("Learning rate", |v| v.shown.lr, false))
        .metric_train_numeric(StepMetric::new(
            "Items per second",
            |v| v.shown.items_per_s,
            true,
        ))
        .with_training_strategy(TrainingStrategy::Custom(strategy.clone()));
    let training = match view {
        View::Interactive => training,
        View::Plain => training.renderer(Box::new(Silent)),
    };
    // The strategy owns optimizer and schedule, whose state it saves; the learner's own stay idle.
    let learner = Learner::new(model, SgdConfig::new().init(), 0.0);
    let result = training.launch(learner);
    let outcome = strategy.outcome();
    drop(result);
    outcome
}
