//! What a task's one scoring function gives: sums of losses that can still be differentiated, and what is measured
//! beside them.
//!
//! The loss of an optimizer step is Σ_t c_t · S_t / W_t over its terms t, where S_t is the sum over the step and W_t
//! how many values were added in the whole step. A micro-batch divides its own sum by the W_t of the step, so that
//! gradients added over micro-batches equal those of one big batch however its values are spread.

use super::output::{Kept, StepOutput, Sum};
use super::unread::{LOSS, Unread};
use crate::data::batch::Batch;
use crate::evaluate::metric::Metric;
use crate::evaluate::predictions::Predictions;
use crate::kernel::{self, replay};
use crate::nn::pass::AddedLoss;
use burn::tensor::{FloatDType, Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// What the sum of a term is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Scored positions, or rows with a class.
    Scored,
    /// What is scored, each by the weight of its class; in a batch whose classes have weights.
    Weighed,
    /// Second targets that are scored.
    Second,
    /// Rows.
    Rows,
    /// Tokens that are read, without what fills rows up.
    Tokens,
}

impl Over {
    /// So many values are in this micro-batch.
    pub fn of_batch(self, batch: &Batch) -> f64 {
        match self {
            Self::Scored => batch.scored as f64,
            Self::Weighed => batch.weight,
            Self::Second => batch.second as f64,
            Self::Rows => batch.rows as f64,
            Self::Tokens => batch.tokens as f64,
        }
    }

    /// So many values are in the whole step.
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
    /// What it is divided by.
    pub over: Over,
    /// Its factor in the loss that is differentiated; it is written down without it.
    pub coefficient: f64,
}

impl Term {
    /// A sum that is the loss once it is divided.
    pub fn new(sum: Tensor<1>, over: Over) -> Self {
        Self {
            sum,
            over,
            coefficient: 1.0,
        }
    }
}

/// What turns the sum over a step's scored values into their mean, `[1]`.
pub(super) fn factor(batch: &Batch) -> TensorData {
    TensorData::from([1.0 / batch.step_scored.max(1) as f32])
}

/// A term over its weight in the whole step. A step whose numbers stay on the device reads there how many values are
/// scored: batches may differ in this that are of one size otherwise, and be replays of one step.
fn mean(term: &Term, batch: &Batch) -> Tensor<1> {
    let sum = term.sum.clone();
    if batch.unread && term.over == Over::Scored {
        let factor = replay::floats(factor(batch), &sum.device());
        let format = FloatDType::from(sum.dtype());
        return sum * factor.cast(format);
    }
    // Of nothing the sum is 0.
    let weight = term.over.of_step(batch);
    sum / if weight > 0.0 { weight } else { 1.0 }
}

/// A number that was counted on the device.
#[derive(Clone, Debug)]
pub struct Count {
    /// How many of them, `[1]`.
    pub sum: Tensor<1>,
    /// Of so many.
    pub of: f64,
}

/// What a batch scores.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The term that is reported as the loss.
    pub loss: Term,
    /// Further terms, each with the metric that it is written down as; those of one metric as their mean.
    pub more: Vec<(Metric, Term)>,
    /// The names of those, and of counts, that training's journal shows too.
    pub added: BTreeSet<&'static str>,
    /// Metrics whose means, each times a factor, are the loss in an evaluation; see [`StepOutput::joint`].
    pub joint: BTreeMap<&'static str, f64>,
    /// Whether e to the power of the loss is no perplexity: it is of rewards or of squared errors, not of tokens.
    pub no_perplexity: bool,
    /// Items that were read (tokens for text).
    pub items: u64,
    /// Further metrics by their usual names.
    pub metrics: BTreeMap<&'static str, Sum>,
    /// Further metrics whose sums are on the device, each with its weight.
    pub counts: Vec<(&'static str, Count)>,
    /// What metrics that are no means are made of, in an evaluation.
    pub predictions: Option<Predictions>,
    /// What the task takes in once the step is taken.
    pub kept: Option<Kept>,
}

impl Scored {
    /// A sum of losses over the scored positions of a batch in which so many items were read.
    pub fn new(sum: Tensor<1>, items: u64) -> Self {
        Self::of(Term::new(sum, Over::Scored), items)
    }

    /// A loss of a batch in which so many items were read.
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

    /// The same with a further part of the loss.
    #[must_use]
    pub fn with_term(mut self, metric: Metric, term: Term) -> Self {
        self.more.push((metric, term));
        self
    }

    /// [`Self::with_term`] for a part that training's journal shows too.
    #[must_use]
    pub fn with_added(mut self, metric: Metric, term: Term) -> Self {
        self.added.insert(metric.name);
        self.with_term(metric, term)
    }

    /// The same with a metric.
    #[must_use]
    pub fn with_metric(mut self, metric: Metric, sum: Sum) -> Self {
        self.metrics.insert(metric.name, sum);
        self
    }

    /// The same with a metric that was counted on the device.
    #[must_use]
    pub fn with_count(mut self, metric: Metric, count: Count) -> Self {
        self.counts.push((metric.name, count));
        self
    }

    /// What the backward pass of this micro-batch starts from, `[1]`: every term over its weight in the whole step.
    ///
    /// A loss that a layer added has its mean multiplied by the micro-batch's share of the step's tokens. All are added in single
    /// precision.
    pub(super) fn differentiated(&self, batch: &Batch, added: &[AddedLoss]) -> Tensor<1> {
        let share = |term: &Term| {
            let mean = kernel::full(mean(term, batch));
            // No operation for the usual factor.
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
            loss + kernel::full(added.mean.clone()) * (added.coefficient * of_step)
        })
    }

    /// The numbers that are written down, on the device where the batch says so; layers that added a loss of one name have
    /// their mean there.
    pub(super) fn output(self, batch: &Batch, added: Vec<AddedLoss>) -> StepOutput {
        let tokens = batch.tokens as f64;
        let weight = |term: &Term| Sum::new(0.0, term.over.of_batch(batch));
        let mut unread = Unread::default();
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
        match batch.unread {
            true => output,
            false => output.read(),
        }
    }
}
