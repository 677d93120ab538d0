//! Result of a task's scoring function: differentiable sums of losses, and the metrics beside them.
//!
//! The loss of an optimizer step is Σ_t c_t · S_t / W_t over its terms t, where S_t is the sum over the step and W_t
//! the number of values added in the whole step. A micro-batch divides its own sum by the W_t of the step, so that
//! gradients added over micro-batches equal those of one big batch, however the values are distributed.

use super::device_sums::{DeviceSums, LOSS};
use super::output::{KeptVectors, StepOutput, Sum};
use crate::data::batch::Batch;
use crate::evaluate::metric::Metric;
use crate::evaluate::predictions::Predictions;
use crate::kernel::{self, replay};
use crate::nn::pass::AuxiliaryLoss;
use burn::tensor::{FloatDType, Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// Divisor of a term's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// Scored positions, or rows with a class.
    Scored,
    /// Scored positions, each with the weight of its class; for batches with class weights.
    Weighed,
    /// Scored second targets.
    Second,
    /// Rows.
    Rows,
    /// Tokens that are read, without padding.
    Tokens,
}

impl Divisor {
    /// Returns the number of these values in the micro-batch.
    pub fn of_batch(self, batch: &Batch) -> f64 {
        match self {
            Self::Scored => batch.scored as f64,
            Self::Weighed => batch.weight,
            Self::Second => batch.second as f64,
            Self::Rows => batch.rows as f64,
            Self::Tokens => batch.tokens as f64,
        }
    }

    /// Returns the number of these values in the whole step.
    pub fn of_step(self, batch: &Batch) -> f64 {
        match self {
            Self::Scored => batch.step_scored as f64,
            Self::Weighed => batch.step_weight,
            Self::Second => batch.step_second as f64,
            Self::Rows => batch.step_rows as f64,
            Self::Tokens => batch.step_tokens as f64,
        }
    }
}

/// A part of the loss.
#[derive(Clone, Debug)]
pub struct Term {
    /// Sum of the losses in nats, `[1]`.
    pub sum: Tensor<1>,
    /// Divisor of the sum.
    pub over: Divisor,
    /// Factor of the term in the differentiated loss; the reported value does not include it.
    pub coefficient: f64,
}

impl Term {
    /// Builds a term with the coefficient 1.
    pub fn new(sum: Tensor<1>, over: Divisor) -> Self {
        Self {
            sum,
            over,
            coefficient: 1.0,
        }
    }
}

/// Returns the factor from the sum over a step's scored values to their mean, `[1]`.
pub(super) fn mean_factor(batch: &Batch) -> TensorData {
    TensorData::from([1.0 / batch.step_scored.max(1) as f32])
}

/// Divides a term by its weight in the whole step. If the step's numbers stay on the device, the count of scored values
/// is read there as well: batches of equal size may differ in it, and yet be replays of one step.
fn mean(term: &Term, batch: &Batch) -> Tensor<1> {
    let sum = term.sum.clone();
    if batch.keeps_sums_on_device && term.over == Divisor::Scored {
        let factor = replay::floats(mean_factor(batch), &sum.device());
        let format = FloatDType::from(sum.dtype());
        return sum * factor.cast(format);
    }
    // If nothing was added, the sum is 0.
    let weight = term.over.of_step(batch);
    sum / if weight > 0.0 { weight } else { 1.0 }
}

/// A count on the device.
#[derive(Clone, Debug)]
pub struct Count {
    /// Number of hits, `[1]`.
    pub sum: Tensor<1>,
    /// Number of values counted.
    pub of: f64,
}

/// The scores of a batch.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The term that is reported as the loss.
    pub loss: Term,
    /// Further terms of the loss, each with the metric that reports it; terms with the same metric are averaged.
    pub more: Vec<(Metric, Term)>,
    /// Names of the further terms and counts that the training journal shows too.
    pub added: BTreeSet<&'static str>,
    /// Metrics whose means, each times its factor, add up to the loss of an evaluation; see [`StepOutput::joint`].
    pub joint: BTreeMap<&'static str, f64>,
    /// Whether exp(loss) is not a perplexity, since the loss is of rewards or squared errors, not of tokens.
    pub no_perplexity: bool,
    /// Number of items read (tokens for text).
    pub items: u64,
    /// Further metrics by their usual names.
    pub metrics: BTreeMap<&'static str, Sum>,
    /// Further metrics whose sums are on the device, each with its weight.
    pub counts: Vec<(&'static str, Count)>,
    /// In an evaluation, the predictions for metrics that are not means.
    pub predictions: Option<Predictions>,
    /// Vectors that the task takes in once the step is taken.
    pub kept: Option<KeptVectors>,
}

impl Scored {
    /// Builds the scores of a batch from the sum of losses over its scored positions; `items` is the number of items
    /// read.
    pub fn new(sum: Tensor<1>, items: u64) -> Self {
        Self::of(Term::new(sum, Divisor::Scored), items)
    }

    /// Builds the scores of a batch from its loss; `items` is the number of items read.
    pub fn of(loss: Term, items: u64) -> Self {
        Self {
            loss,
            more: Vec::new(),
            added: BTreeSet::new(),
            joint: BTreeMap::new(),
            no_perplexity: false,
            items,
            metrics: BTreeMap::new(),
            counts: Vec::new(),
            predictions: None,
            kept: None,
        }
    }

    /// Adds a further term to the loss.
    #[must_use]
    pub fn with_term(mut self, metric: Metric, term: Term) -> Self {
        self.more.push((metric, term));
        self
    }

    /// Adds a further term that the training journal shows too, as [`Self::with_term`].
    #[must_use]
    pub fn with_added(mut self, metric: Metric, term: Term) -> Self {
        self.added.insert(metric.name);
        self.with_term(metric, term)
    }

    /// Adds a metric.
    #[must_use]
    pub fn with_metric(mut self, metric: Metric, sum: Sum) -> Self {
        self.metrics.insert(metric.name, sum);
        self
    }

    /// Adds a metric that was counted on the device.
    #[must_use]
    pub fn with_count(mut self, metric: Metric, count: Count) -> Self {
        self.counts.push((metric.name, count));
        self
    }

    /// Returns the loss that the backward pass of this micro-batch starts from, `[1]`: the sum of all terms, each
    /// divided by its weight in the whole step.
    ///
    /// The mean of a loss that a layer added is multiplied by the micro-batch's share of the step's tokens. All are
    /// added in single precision.
    pub(super) fn training_loss(&self, batch: &Batch, added: &[AuxiliaryLoss]) -> Tensor<1> {
        let share = |term: &Term| {
            let mean = kernel::to_f32(mean(term, batch));
            // The usual factor needs no operation.
            match term.coefficient == 1.0 {
                true => mean,
                false => mean * term.coefficient,
            }
        };
        let further = self.more.iter().map(|(_, term)| share(term));
        let loss = further.fold(share(&self.loss), |loss, term| loss + term);
        let of_step = batch.tokens as f64 / batch.step_tokens.max(1) as f64;
        let counted = added.iter().filter(|loss| loss.coefficient != 0.0);
        counted.fold(loss, |loss, added| {
            loss + kernel::to_f32(added.mean.clone()) * (added.coefficient * of_step)
        })
    }

    /// Returns the numbers to report; they stay on the device if the batch asks for it. Added losses of several layers
    /// with the same name are averaged.
    pub(super) fn output(self, batch: &Batch, added: Vec<AuxiliaryLoss>) -> StepOutput {
        let tokens = batch.tokens as f64;
        let weight = |term: &Term| Sum::new(0.0, term.over.of_batch(batch));
        let mut unread = DeviceSums::default();
        let mut metrics = self.metrics;
        for (metric, term) in self.more {
            *metrics.entry(metric.name).or_default() += weight(&term);
            unread.push(metric.name, term.sum, 1.0);
        }
        for (name, count) in self.counts {
            *metrics.entry(name).or_default() += Sum::new(0.0, count.of);
            unread.push(name, count.sum, 1.0);
        }
        let mut names = self.added;
        names.extend(added.iter().map(|added| added.name));
        for added in added {
            *metrics.entry(added.name).or_default() += Sum::new(0.0, tokens);
            unread.push(added.name, added.mean, tokens);
        }
        let loss = weight(&self.loss);
        unread.push(LOSS, self.loss.sum, 1.0);
        let output = StepOutput {
            loss,
            items: self.items,
            metrics,
            added: names,
            joint: self.joint,
            no_perplexity: self.no_perplexity,
            predictions: self.predictions,
            kept: self.kept,
            unread,
            ..StepOutput::default()
        };
        match batch.keeps_sums_on_device {
            true => output,
            false => output.read(),
        }
    }
}
