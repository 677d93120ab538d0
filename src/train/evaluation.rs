//! Metrics of a model on a whole split.

use super::config::TrainConfig;
use crate::data::{Source, loader};
use crate::error::{Error, Result};
use crate::task::{StepOutput, Task};
use burn::train::InferenceStep;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A split and what turns its loss into other units.
#[derive(Clone)]
pub struct Split {
    /// The items.
    pub source: Arc<dyn Source>,
    /// Bytes of text behind one scored token, when there is text.
    pub bytes_per_token: Option<f64>,
}

/// How much of a split is read at once and in all.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Items of a batch.
    pub batch_size: usize,
    /// Batches; all when absent.
    pub batches: Option<usize>,
}

impl Extent {
    /// Every item of the split.
    pub fn whole(config: &TrainConfig) -> Self {
        Self {
            batch_size: config.eval_batch_size(),
            batches: None,
        }
    }

    /// What evaluations on the way read.
    pub fn on_the_way(config: &TrainConfig) -> Self {
        Self {
            batch_size: config.eval_batch_size(),
            batches: config.eval_batches,
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
}

/// Runs `model` (in evaluation mode) over the split; `each` sees every batch's sums.
pub fn evaluate<M: Task>(
    model: &M,
    split: &Split,
    extent: Extent,
    mut each: impl FnMut(&StepOutput, u64, u64),
) -> Result<Scores> {
    let count = split.source.len().div_ceil(extent.batch_size.max(1));
    let batches = extent.batches.map_or(count, |limit| limit.min(count));
    let mut total = StepOutput::default();

    let all = loader::eval_batches(split.source.clone(), extent.batch_size);
    for (i, batch) in all.take(batches).enumerate() {
        let output = InferenceStep::step(model, batch?);
        each(&output, i as u64 + 1, batches as u64);
        total.add(&output);
    }
    if total.loss.weight == 0.0 {
        return Err(Error::run(
            "the split has no scored position to evaluate on",
        ));
    }
    Ok(scores(&total, split.bytes_per_token))
}

fn scores(total: &StepOutput, bytes_per_token: Option<f64>) -> Scores {
    let loss = total.loss.mean();
    let mut metrics: BTreeMap<String, f64> = total
        .metrics
        .iter()
        .map(|(name, sum)| ((*name).to_string(), sum.mean()))
        .collect();
    metrics.insert("perplexity".into(), loss.exp());
    if let Some(bytes) = bytes_per_token {
        metrics.insert(
            "bits_per_byte".into(),
            loss / std::f64::consts::LN_2 / bytes,
        );
    }
    Scores { loss, metrics }
}
