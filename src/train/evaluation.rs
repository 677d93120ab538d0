//! Metrics of a model on a whole split.
//!
//! Several ranks take turns at the batches, and each rank adds the sums of all batches in order: the result equals that
//! of one process bit for bit. If a state is carried from batch to batch, the lanes of a split are divided into groups,
//! regardless of how many ranks there are: each rank carries the states of some groups, and adds the sums of all groups
//! in order.

use super::exchange;
use super::gradients;
use super::metrics::higher_is_better;
use crate::collective::Ranks;
use crate::data::Source;
use crate::data::loader::{self, Batch, EvalSize};
use crate::error::{Error, Result};
use crate::evaluate::classification::Confusion;
use crate::evaluate::predictions::Predictions;
use crate::stack::state::ModelState;
use crate::task::{StepInput, StepOutput, TrainableModel};
use burn::train::InferenceStep;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A split and what is needed to convert its loss to other units.
#[derive(Clone)]
pub struct Split {
    /// The items.
    pub source: Arc<dyn Source>,
    /// Bytes of text per scored token, for text.
    pub bytes_per_token: Option<f64>,
    /// Whether the model carries its state through the split (`[train] carry_state`): a batch of b rows then reads the
    /// split in b lanes, each of which begins with an empty state. With one lane it is one long pass.
    pub carries_state: bool,
    /// Number of groups of lanes, each a separate batch if state is carried; a power of two that divides the number of lanes.
    pub groups: usize,
    /// Whether each row is contrasted with the others of its batch, so that no row may form a batch by itself.
    pub contrasts_rows: bool,
}

impl Split {
    /// Checks that there are at least two rows if rows are contrasted with each other.
    ///
    /// # Errors
    /// If the split has a single row.
    pub fn require_rows(&self) -> Result<()> {
        match self.contrasts_rows && self.source.len() == 1 {
            true => Err(Error::usage(
                "there is only one example to evaluate, but examples are compared with each other: at least 2 are needed",
            )),
            false => Ok(()),
        }
    }
}

/// Mean loss and metrics over a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Mean loss in nats over scored positions.
    pub loss: f64,
    /// Other metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Confusion matrix, for classification.
    pub confusion: Option<Confusion>,
}

impl Scores {
    /// Returns the value of a metric, negated if higher is better, so that the lowest value is the best.
    ///
    /// # Errors
    /// If the metric was not measured; the message lists those that were.
    pub fn comparison_value(&self, metric: &str) -> Result<f64> {
        let value = match metric {
            "loss" => Some(self.loss),
            _ => self.metrics.get(metric).copied(),
        };
        let value = value.ok_or_else(|| {
            let measured: Vec<&str> = self.metrics.keys().map(String::as_str).collect();
            Error::run(format!(
                "[train] best_by = \"{metric}\" is not measured; the metrics are: loss, {}",
                measured.join(", ")
            ))
        })?;
        Ok(match higher_is_better(metric) {
            true => -value,
            false => value,
        })
    }
}

/// A pass over a split, batch after batch; it can be stopped after any of them.
pub struct Evaluation {
    /// Batches of this rank, one turn at a time.
    turns: Box<dyn Iterator<Item = Result<Vec<Batch>>> + Send>,
    count: usize,
    total: StepOutput,
    bytes_per_token: Option<f64>,
    carried: bool,
    /// States that the rows of the last turn's batches pass on.
    states: Vec<ModelState>,
    ranks: Ranks,
    /// Sums of batches that have been read but not yet returned by `step`.
    ready: VecDeque<StepOutput>,
}

impl Evaluation {
    /// Starts a pass at the first item.
    pub fn new(split: &Split, batch_size: usize) -> Self {
        Self::on_ranks(split, batch_size, Ranks::solo())
    }

    /// Returns the batch size of a split: rows that are contrasted with each other are never alone in a batch.
    pub fn size(split: &Split, batch_size: usize) -> EvalSize {
        EvalSize {
            rows: batch_size,
            min_last_rows: if split.contrasts_rows { 2 } else { 1 },
        }
    }

    /// Starts a pass of which each rank reads its share; all ranks must take every step.
    pub fn on_ranks(split: &Split, batch_size: usize, ranks: Ranks) -> Self {
        let source = split.source.clone();
        let (rank, count) = (ranks.rank(), ranks.count());
        let size = Self::size(split, batch_size);
        Self {
            turns: match split.carries_state {
                true => {
                    let own = gradients::subtree_ranges(split.groups, count).swap_remove(rank);
                    Box::new(loader::eval_lanes(source, batch_size, split.groups, own))
                }
                false => {
                    let batches = loader::eval_share(source, size, rank, count);
                    Box::new(batches.map(|batch| Ok(vec![batch?])))
                }
            },
            count: size.batches(split.source.len()),
            total: StepOutput::default(),
            bytes_per_token: split.bytes_per_token,
            carried: split.carries_state,
            states: Vec::new(),
            ranks,
            ready: VecDeque::new(),
        }
    }

    /// Returns the number of batches of the whole split.
    pub fn batches(&self) -> usize {
        self.count
    }

    /// Runs `model` (in evaluation mode) on the next batch and returns its sums, or `None` after the last.
    ///
    /// # Errors
    /// If items cannot be read or a rank has failed.
    pub fn step<M: TrainableModel>(&mut self, model: &M) -> Result<Option<StepOutput>> {
        if self.ready.is_empty() {
            let mut turn = self.run_turn(model)?;
            if self.ranks.is_distributed() {
                let all = self.ranks.all_gather(&exchange::to_bytes(&turn)?)?;
                let all = all.iter().map(|bytes| exchange::from_bytes(bytes));
                turn = all.collect::<Result<Vec<_>>>()?.concat();
            }
            if self.carried {
                // The groups of lanes together make one batch.
                turn = turn.into_iter().reduce(sum_outputs).into_iter().collect();
            }
            self.ready.extend(turn);
        }
        let output = self.ready.pop_front();
        if let Some(output) = &output {
            self.total.add(output);
        }
        Ok(output)
    }

    /// Computes the sums of each batch of this rank's next turn.
    fn run_turn<M: TrainableModel>(&mut self, model: &M) -> Result<Vec<StepOutput>> {
        let Some(batches) = self.turns.next() else {
            return Ok(Vec::new());
        };
        let mut before = std::mem::take(&mut self.states).into_iter();
        let mut outputs = Vec::new();
        for batch in batches? {
            let state = match before.next() {
                // Lanes that have ended come last.
                Some(state) => Some(state.rows(0..batch.rows)),
                None if self.carried => model.empty_state(),
                None => None,
            };
            let mut output = InferenceStep::step(model, StepInput { batch, state });
            self.states.extend(output.state.take());
            outputs.push(output);
        }
        Ok(outputs)
    }

    /// Returns the mean loss so far; NaN if no position was scored.
    pub fn loss(&self) -> f64 {
        self.total.mean_loss()
    }

    /// Returns the scores so far.
    ///
    /// # Errors
    /// If no position was scored.
    pub fn scores(&self) -> Result<Scores> {
        if self.total.loss.weight == 0.0 {
            return Err(Error::run(
                "the split has no scored position to evaluate on",
            ));
        }
        Ok(scores(&self.total, self.bytes_per_token))
    }
}

/// Computes the scores of `model` (in evaluation mode) on every item of the split.
///
/// # Errors
/// If items cannot be read, or the split has no scored position.
pub fn evaluate<M: TrainableModel>(model: &M, split: &Split, batch_size: usize) -> Result<Scores> {
    let mut pass = Evaluation::new(split, batch_size);
    while pass.step(model)?.is_some() {}
    pass.scores()
}

fn sum_outputs(mut sum: StepOutput, more: StepOutput) -> StepOutput {
    sum.add(&more);
    sum
}

fn scores(total: &StepOutput, bytes_per_token: Option<f64>) -> Scores {
    let loss = total.mean_loss();
    let mut metrics: BTreeMap<String, f64> = total
        .metrics
        .iter()
        .map(|(name, sum)| ((*name).to_string(), sum.mean()))
        .collect();
    if total.is_token_loss() {
        metrics.insert("perplexity".into(), loss.exp());
    }
    if let Some(bytes) = bytes_per_token {
        metrics.insert(
            "bits_per_byte".into(),
            loss / std::f64::consts::LN_2 / bytes,
        );
    }
    let predictions = total.predictions.as_ref();
    for (metric, value) in predictions.into_iter().flat_map(Predictions::metrics) {
        metrics.insert(metric.name.into(), value);
    }
    Scores {
        loss,
        metrics,
        confusion: predictions.and_then(Predictions::confusion).cloned(),
    }
}
