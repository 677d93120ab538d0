//! burn-train's view of a run: the numbers of a step as its metrics, and its events passed to one of our views.

mod renderer;

use crate::task::output::{LastValues, StepOutput};
use burn::data::dataloader::Progress;
use burn::tensor::TensorReadError;
use burn::train::logger::MetricLogger;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{
    Adaptor, Metric, MetricAttributes, MetricDefinition, MetricMetadata, MetricName, Numeric,
    NumericAttributes, NumericEntry, SerializedEntry,
};
pub use renderer::{NoView, Renderer, StepNumbers, View};
use std::sync::Arc;

/// The numbers that a metric may show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values {
    /// Mean loss in nats.
    pub loss: f64,
    /// Scored positions of the step.
    pub weight: f64,
    /// Values that are not sums.
    pub shown: LastValues,
}

impl Adaptor<Values> for StepOutput {
    fn adapt(&self) -> Values {
        Values {
            loss: self.loss.mean(),
            weight: self.loss.weight,
            shown: self.shown,
        }
    }
}

/// One number of a step as a metric of burn-train.
#[derive(Clone)]
pub struct StepMetric {
    name: MetricName,
    value: fn(&Values) -> f64,
    higher_is_better: bool,
    state: NumericMetricState,
}

impl StepMetric {
    /// Builds a metric that shows `value`.
    pub fn new(name: &str, value: fn(&Values) -> f64, higher_is_better: bool) -> Self {
        Self {
            name: Arc::new(name.to_string()),
            value,
            higher_is_better,
            state: NumericMetricState::default(),
        }
    }

    fn format(&self) -> FormatOptions {
        FormatOptions::new(self.name.clone()).precision(4)
    }
}

impl Metric for StepMetric {
    type Input = Values;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: None,
            higher_is_better: self.higher_is_better,
        }
        .into()
    }

    fn update(
        &mut self,
        values: &Values,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.state
            .update((self.value)(values), values.weight.max(1.0) as usize);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.state.compute_final(self.format()))
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl Numeric for StepMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

/// Keeps burn-train from writing its own metric files: the journal is the only record.
pub struct NullLogger;

impl MetricLogger for NullLogger {
    fn log(&mut self, _: MetricsUpdate, _: usize, _: &Split) {}

    fn read_numeric(&mut self, _: &str, _: usize, _: &Split) -> Result<Vec<NumericEntry>, String> {
        Ok(Vec::new())
    }

    fn log_metric_definition(&mut self, _: MetricDefinition) {}

    fn log_epoch_summary(&mut self, _: EpochSummary) {}
}

/// Builds the progress of a split in steps.
pub fn progress(done: u64, total: u64) -> Progress {
    Progress::new(done as usize, total as usize, Some("steps".into()))
}

/// The names of a step's numbers, as burn-train's renderer receives them.
pub mod names {
    /// Mean loss in nats.
    pub const LOSS: &str = "Loss";
    /// Norm of the gradient before clipping.
    pub const GRADIENT_NORM: &str = "Gradient norm";
    /// Learning rate.
    pub const LEARNING_RATE: &str = "Learning rate";
    /// Items per second: tokens, images.
    pub const SPEED: &str = "Items per second";
}
