//! The training strategy under burn-train's learner; it owns the order of the step loop.
//!
//! burn-train's own loop is shaped by epochs: it validates and saves only at their ends, adds the gradients of
//! micro-batches without weights, restores neither the order of the data nor the position in it, and exits without
//! saving when it is interrupted. This strategy keeps burn-train's steps, learner, metrics and dashboard, and hands the
//! loop to [`Steps`].

use super::events::Events;
use super::job::{Job, Observer, Outcome};
use super::steps::Steps;
use crate::error::{Error, Result};
use crate::task::TrainableModel;
use burn::train::{
    Learner, SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader,
    TrainingComponents, ValidLoader,
};
use std::sync::Mutex;

/// A job and its observer.
type JobWithObserver<M> = (Job<M>, Box<dyn Observer<M>>);

/// Carries a job into burn-train and its outcome out of it.
pub struct StepStrategy<M: TrainableModel> {
    job: Mutex<Option<JobWithObserver<M>>>,
    outcome: Mutex<Option<Result<Outcome>>>,
}

impl<M: TrainableModel> StepStrategy<M> {
    /// Builds the strategy for one job.
    pub fn new(job: Job<M>, observer: Box<dyn Observer<M>>) -> Self {
        Self {
            job: Mutex::new(Some((job, observer))),
            outcome: Mutex::new(None),
        }
    }

    /// Takes the outcome of the job.
    ///
    /// # Errors
    /// Errors of the step loop; a step loop that did not run.
    pub fn outcome(&self) -> Result<Outcome> {
        take(&self.outcome).unwrap_or_else(|| Err(Error::run("the step loop did not run")))
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(|e| e.into_inner()).take()
}

impl<M: TrainableModel> SupervisedLearningStrategy<M> for StepStrategy<M> {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        learner: Learner<M>,
        _train: TrainLoader<M>,
        _valid: ValidLoader<M>,
        _starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let Some((job, observer)) = take(&self.job) else {
            unreachable!("burn-train enters a strategy once")
        };
        let model = learner.model();
        drop(learner);
        let events = Events::new(components.event_processor, components.interrupter);
        let (model, events, outcome) = Steps::new(model, job, observer, events).run();
        *self.outcome.lock().unwrap_or_else(|e| e.into_inner()) = Some(outcome);
        (model, events.into_processor())
    }
}
