//! burn-train's events, taken into the state of the live view.

use super::Shared;
use super::state::Step;
use crate::train::view::names;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Receives burn-train's events.
pub struct Renderer {
    shared: Arc<Shared>,
    names: HashMap<MetricId, String>,
    /// The numbers of the step that is being told.
    step: Step,
    trains: bool,
}

impl Renderer {
    /// A receiver for this view.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            names: HashMap::new(),
            step: Step::default(),
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

/// burn-train's splits are stretches of steps and evaluations, its epochs our rounds.
impl TrainingProgressLogger for Renderer {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}

    fn update_epoch(&mut self, round: usize) {
        self.shared
            .change(|state, now| state.rounds(round as u64, now));
    }

    fn start_split(&mut self, split: &str, total: usize) {
        self.trains = split == "train";
        match self.trains {
            true => self.shared.change(|state, now| state.steps_begin(now)),
            false => self
                .shared
                .change(|state, now| state.evaluation_begins(total as u64, now)),
        }
    }

    fn update_split(&mut self, done: usize) {
        let step = self.step;
        match self.trains {
            true => self
                .shared
                .change(|state, now| state.stepped(done as u64, step, now)),
            false => self.shared.change(|state, _| state.evaluated(done as u64)),
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
