//! Output of one step of any task: sums that add up over micro-batches and batches.

use super::device_sums::DeviceSums;
use crate::evaluate::predictions::Predictions;
use crate::nn::probe::Readings;
use crate::stack::state::ModelState;
use burn::tensor::{ExecutionError, Tensor};
use burn::train::ItemLazy;
use std::collections::{BTreeMap, BTreeSet};

/// A weighted sum; the mean is `sum / weight`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Sum of the values.
    pub sum: f64,
    /// Number of values, or their total weight.
    pub weight: f64,
}

impl Sum {
    /// Builds a sum from its parts.
    pub fn new(sum: f64, weight: f64) -> Self {
        Self { sum, weight }
    }

    /// Returns the mean; NaN if nothing was added.
    pub fn mean(&self) -> f64 {
        self.sum / self.weight
    }
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.weight += other.weight;
    }
}

/// Vectors that a step keeps for later steps, added up over its micro-batches.
#[derive(Clone, Debug)]
pub struct KeptVectors {
    /// Sum of the vectors, not tracked.
    pub sum: Tensor<1>,
    /// Number of vectors added.
    pub count: f64,
}

/// The sums of a step.
#[derive(Clone, Debug, Default)]
pub struct StepOutput {
    /// Loss in nats, summed over scored positions.
    pub loss: Sum,
    /// Number of items read (tokens for text).
    pub items: u64,
    /// Further metrics by their usual names (`accuracy`, `exact_match` …).
    pub metrics: BTreeMap<&'static str, Sum>,
    /// Names of the metrics that the training journal shows too, such as the losses that layers add.
    pub added: BTreeSet<&'static str>,
    /// Factors by metric name: an evaluation whose parts average over different numbers of tokens reports as its loss
    /// the sum of these metrics' means, each times its factor. If empty, the loss is `loss`.
    pub joint: BTreeMap<&'static str, f64>,
    /// Whether exp(loss) is not a perplexity, since the loss is of rewards or squared errors, not of tokens.
    pub no_perplexity: bool,
    /// In an evaluation, the predictions for metrics that are not means.
    pub predictions: Option<Predictions>,
    /// Further values for the interactive view.
    pub shown: LastValues,
    /// Readings of the pass in a step that is probed: those of its first micro-batch.
    pub readings: Option<Readings>,
    /// Sums that are still on the device; the sums above do not include them.
    pub unread: DeviceSums,
    /// State that the networks pass on to the next batch of the same rows; sums over batches have none.
    pub state: Option<ModelState>,
    /// Vectors that the task takes in once the step is taken.
    pub kept: Option<KeptVectors>,
}

/// Outputs are equal if their numbers are equal; what is passed on to later steps is not compared.
impl PartialEq for StepOutput {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |output: &Self| (output.loss, output.items, output.shown);
        numbers(self) == numbers(other)
            && self.metrics == other.metrics
            && self.predictions == other.predictions
            && self.readings == other.readings
    }
}

/// Values of the last step that are not sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastValues {
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Items per second.
    pub items_per_s: f64,
}

impl StepOutput {
    /// Returns the mean loss; NaN if nothing was scored.
    pub fn mean_loss(&self) -> f64 {
        let mean = |name: &str| self.metrics.get(name).map_or(f64::NAN, Sum::mean);
        match self.joint.is_empty() {
            true => self.loss.mean(),
            false => self
                .joint
                .iter()
                .map(|(name, factor)| factor * mean(name))
                .sum(),
        }
    }

    /// Returns whether the loss of an evaluation is a mean over tokens; evaluations of classes, numbers and answers
    /// have predictions instead.
    pub fn is_token_loss(&self) -> bool {
        self.predictions.is_none() && !self.no_perplexity
    }

    /// Adds another step's sums to this one's.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.items += other.items;
        for (name, sum) in &other.metrics {
            *self.metrics.entry(name).or_default() += *sum;
        }
        self.added.extend(&other.added);
        self.joint.extend(&other.joint);
        self.no_perplexity |= other.no_perplexity;
        match (&mut self.predictions, &other.predictions) {
            (Some(sum), Some(more)) => sum.merge(more),
            (None, Some(more)) => self.predictions = Some(more.clone()),
            (_, None) => {}
        }
        self.unread.add(&other.unread);
        self.kept = match (self.kept.take(), &other.kept) {
            (Some(own), Some(more)) => Some(KeptVectors {
                sum: own.sum + more.sum.clone(),
                count: own.count + more.count,
            }),
            (own, more) => own.or_else(|| more.clone()),
        };
        self.shown = other.shown;
        if self.readings.is_none() {
            self.readings.clone_from(&other.readings);
        }
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}
