//! What one step of any task gives back: sums that add up over micro-batches and batches.

use super::unread::Unread;
use crate::evaluate::predictions::Predictions;
use crate::nn::probe::Readings;
use crate::stack::state::ModelState;
use burn::tensor::{ExecutionError, Tensor};
use burn::train::ItemLazy;
use std::collections::{BTreeMap, BTreeSet};

/// A sum with its weight; the mean is their quotient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Added values.
    pub sum: f64,
    /// How many values were added.
    pub weight: f64,
}

impl Sum {
    /// One sum.
    pub fn new(sum: f64, weight: f64) -> Self {
        Self { sum, weight }
    }

    /// The mean; NaN when nothing was added.
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

/// Vectors that a step tells for later ones, added up over its micro-batches.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Their sum, not tracked.
    pub sum: Tensor<1>,
    /// How many were added.
    pub count: f64,
}

/// The sums of a step.
#[derive(Clone, Debug, Default)]
pub struct StepOutput {
    /// Loss in nats over scored positions.
    pub loss: Sum,
    /// Items that were read (tokens for text).
    pub items: u64,
    /// Further metrics by their usual names (`accuracy`, `exact_match` …).
    pub metrics: BTreeMap<&'static str, Sum>,
    /// The names of those that are losses which layers added: training's journal shows them too.
    pub added: BTreeSet<&'static str>,
    /// Metrics whose means, each times a factor, are the loss of an evaluation whose parts are over different numbers of tokens; `loss`
    /// itself when empty.
    pub joint: BTreeMap<&'static str, f64>,
    /// Whether e to the power of the loss is no perplexity: it is of rewards or of squared errors, not of tokens.
    pub no_perplexity: bool,
    /// What metrics that are no means are made of, in an evaluation.
    pub predictions: Option<Predictions>,
    /// What the interactive view shows beside them.
    pub shown: Shown,
    /// What was read of the pass, in a step that is watched: of its first micro-batch.
    pub readings: Option<Readings>,
    /// Sums that are still on the device; those of this output lack them.
    pub unread: Unread,
    /// What the networks pass on to the next batch of the same rows; sums over batches have none.
    pub state: Option<ModelState>,
    /// What the task takes in once the step is taken.
    pub kept: Option<Kept>,
}

/// Outputs are equal when their numbers are; what is passed on is no part of them.
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
pub struct Shown {
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Items per second.
    pub items_per_s: f64,
}

impl StepOutput {
    /// The mean loss; NaN when nothing was scored.
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

    /// Whether its loss is a mean over tokens, where it is one of an evaluation: of classes, numbers and answers there are
    /// predictions.
    pub fn is_of_tokens(&self) -> bool {
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
            (Some(own), Some(more)) => Some(Kept {
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
