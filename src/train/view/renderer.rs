//! burn-train's renderer on top of a view; only this module knows its events.

use super::names;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use std::collections::HashMap;

/// The numbers of one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepNumbers {
    /// Mean loss in nats.
    pub loss: f64,
    /// Norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Items per second.
    pub items_per_s: f64,
}

/// Follows a run step by step. A round is the stretch of steps between two evaluations.
pub trait View: Send + Sync {
    /// Called when a round begins; the first one is 1.
    fn round(&mut self, _round: u64) {}

    /// Called when steps begin, at the start or after an evaluation.
    fn steps_begin(&mut self) {}

    /// Called after a step: `done` steps are done; `step` has the numbers of the last one.
    fn stepped(&mut self, _done: u64, _step: StepNumbers) {}

    /// Called when an evaluation of `batches` batches begins.
    fn evaluation_begins(&mut self, _batches: u64) {}

    /// Called after a batch of the evaluation: `done` batches are done.
    fn evaluated(&mut self, _done: u64) {}
}

/// A view that shows nothing.
pub struct NoView;

impl View for NoView {}

/// Receives burn-train's events and passes them to a view.
pub struct Renderer {
    view: Box<dyn View>,
    names: HashMap<MetricId, String>,
    /// Numbers received so far for the current step.
    step: StepNumbers,
    trains: bool,
}

impl Renderer {
    /// Builds the receiver for a view.
    pub fn new(view: Box<dyn View>) -> Self {
        Self {
            view,
            names: HashMap::new(),
            step: StepNumbers::default(),
            trains: true,
        }
    }
}

impl MetricsRendererTraining for Renderer {
    fn update_train(&mut self, state: MetricState) {
        let MetricState::Numeric(entry, Some(value)) = state else {
            return;
        };
        let value = value.current();
        match self.names.get(&entry.metric_id).map(String::as_str) {
            Some(names::LOSS) => self.step.loss = value,
            Some(names::GRADIENT_NORM) => self.step.gradient_norm = value,
            Some(names::LEARNING_RATE) => self.step.learning_rate = value,
            Some(names::SPEED) => self.step.items_per_s = value,
            _ => {}
        }
    }

    fn update_valid(&mut self, _: MetricState) {}
}

impl MetricsRendererEvaluation for Renderer {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

/// burn-train's splits are stretches of steps or evaluations; its epochs are our rounds.
impl TrainingProgressLogger for Renderer {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}

    fn update_epoch(&mut self, round: usize) {
        self.view.round(round as u64);
    }

    fn start_split(&mut self, split: &str, total: usize) {
        self.trains = split == "train";
        match self.trains {
            true => self.view.steps_begin(),
            false => self.view.evaluation_begins(total as u64),
        }
    }

    fn update_split(&mut self, done: usize) {
        match self.trains {
            true => self.view.stepped(done as u64, self.step),
            false => self.view.evaluated(done as u64),
        }
    }

    fn end_split(&mut self) {}

    fn end(&mut self) {}

    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for Renderer {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for Renderer {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names
            .insert(definition.metric_id, definition.name.to_string());
    }
}
