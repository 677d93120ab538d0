//! Metrics of a model on a whole split.
//!
//! Several ranks take turns at the batches, and each adds the sums of all batches in their order: the bits are those of
//! one process. Where a state is carried from batch to batch, the lanes of a split are divided into groups, however many
//! ranks there are: each rank carries the states of some groups, and adds the sums of all groups in their order.

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
use crate::task::{StepInput, StepOutput, Trained};
use burn::train::InferenceStep;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A split and what turns its loss into other units.
#[derive(Clone)]
pub struct Split {
    /// The items.
    pub source: Arc<dyn Source>,
    /// Bytes of text behind one scored token, when there is text.
    pub bytes_per_token: Option<f64>,
    /// Whether the model carries its state through it (`[train] carry_state`): a batch of b rows then reads the split in
    /// b lanes, each of which begins empty. With one lane it is one long pass.
    pub carried: bool,
    /// The groups of lanes that are batches of their own where state is carried, a power of two that divides the lanes.
    pub groups: usize,
    /// Whether rows are told from the others of their batch, so that none may be a batch of its own.
    pub compared: bool,
}

impl Split {
    /// An error where rows are told from others and there are none.
    ///
    /// # Errors
    /// A single row.
    pub fn require_rows(&self) -> Result<()> {
        match self.compared && self.source.len() == 1 {
            true => Err(Error::usage(
                "there is one example to evaluate, and each is told from others: two at least",
            )),
            false => Ok(()),
        }
    }
}

/// Means over a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Mean loss in nats over scored positions.
    pub loss: f64,
    /// Other metrics by their usual names.
    pub metrics: BTreeMap<String, f64>,
    /// How often each class was taken for each, where classes are told apart.
    pub confusion: Option<Confusion>,
}

impl Scores {
    /// The value of a metric, turned round where higher is better, so that the lowest is the best.
    ///
    /// # Errors
    /// A metric that was not measured; the message lists those that were.
    pub fn compared_by(&self, metric: &str) -> Result<f64> {
        let value = match metric {
            "loss" => Some(self.loss),
            _ => self.metrics.get(metric).copied(),
        };
        let value = value.ok_or_else(|| {
            let measured: Vec<&str> = self.metrics.keys().map(String::as_str).collect();
            Error::run(format!(
                "[train] best_by = \"{metric}\" is not measured; there are: loss, {}",
                measured.join(", ")
            ))
        })?;
        Ok(match higher_is_better(metric) {
            true => -value,
            false => value,
        })
    }
}

/// A pass over a split, batch after batch; it can be left at any of them.
pub struct Evaluation {
    /// The batches of this rank, by turns.
    turns: Box<dyn Iterator<Item = Result<Vec<Batch>>> + Send>,
    count: usize,
    total: StepOutput,
    bytes_per_token: Option<f64>,
    carried: bool,
    /// The states that the rows of the last turn's batches pass on.
    states: Vec<ModelState>,
    ranks: Ranks,
    /// Sums of batches that other ranks have read, or that come after theirs.
    ready: VecDeque<StepOutput>,
}

impl Evaluation {
    /// A pass from the first item on.
    pub fn new(split: &Split, batch_size: usize) -> Self {
        Self::among(split, batch_size, Ranks::solo())
    }

    /// The rows of the batches of a split: those that are compared with each other are never alone.
    pub fn size(split: &Split, batch_size: usize) -> EvalSize {
        EvalSize {
            rows: batch_size,
            least: if split.compared { 2 } else { 1 },
        }
    }

    /// A pass of which each rank reads its share; all of them take every step.
    pub fn among(split: &Split, batch_size: usize, ranks: Ranks) -> Self {
        let source = split.source.clone();
        let (rank, count) = (ranks.rank(), ranks.count());
        let size = Self::size(split, batch_size);
        Self {
            turns: match split.carried {
                true => {
                    let own = gradients::shares(split.groups, count).swap_remove(rank);
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
            carried: split.carried,
            states: Vec::new(),
            ranks,
            ready: VecDeque::new(),
        }
    }

    /// Batches of the whole split.
    pub fn batches(&self) -> usize {
        self.count
    }

    /// Runs `model` (in evaluation mode) on the next batch; its sums, or `None` after the last.
    ///
    /// # Errors
    /// Items that cannot be read; a rank that has failed.
    pub fn step<M: Trained>(&mut self, model: &M) -> Result<Option<StepOutput>> {
        if self.ready.is_empty() {
            let mut turn = self.own(model)?;
            if self.ranks.are_many() {
                let all = self.ranks.all_gather(&exchange::to_bytes(&turn)?)?;
                let all = all.iter().map(|bytes| exchange::from_bytes(bytes));
                turn = all.collect::<Result<Vec<_>>>()?.concat();
            }
            if self.carried {
                // Together the groups of lanes are one batch.
                turn = turn.into_iter().reduce(added).into_iter().collect();
            }
            self.ready.extend(turn);
        }
        let output = self.ready.pop_front();
        if let Some(output) = &output {
            self.total.add(output);
        }
        Ok(output)
    }

    /// The sums of each batch of this rank's next turn.
    fn own<M: Trained>(&mut self, model: &M) -> Result<Vec<StepOutput>> {
        let Some(batches) = self.turns.next() else {
            return Ok(Vec::new());
        };
        let mut before = std::mem::take(&mut self.states).into_iter();
        let mut outputs = Vec::new();
        for batch in batches? {
            let state = match before.next() {
                // The lanes that have ended are the last ones.
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

    /// Mean loss so far; NaN when nothing was scored.
    pub fn loss(&self) -> f64 {
        self.total.mean_loss()
    }

    /// The scores so far.
    ///
    /// # Errors
    /// When no position was scored.
    pub fn scores(&self) -> Result<Scores> {
        if self.total.loss.weight == 0.0 {
            return Err(Error::run(
                "the split has no scored position to evaluate on",
            ));
        }
        Ok(scores(&self.total, self.bytes_per_token))
    }
}

/// Scores of `model` (in evaluation mode) on every item of the split.
///
/// # Errors
/// Items that cannot be read, and a split without a scored position.
pub fn evaluate<M: Trained>(model: &M, split: &Split, batch_size: usize) -> Result<Scores> {
    let mut pass = Evaluation::new(split, batch_size);
    while pass.step(model)?.is_some() {}
    pass.scores()
}

fn added(mut sum: StepOutput, more: StepOutput) -> StepOutput {
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
    if total.is_of_tokens() {
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
