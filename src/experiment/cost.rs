//! The cost of an experiment before it is trained: parameters, FLOPs, memory, the time of a step.

use super::{Experiment, assemble};
use crate::data::{Data, Shape};
use crate::error::Result;
use crate::model::ItemOf;
use crate::plan::{self, ModelCost, Question};
use crate::train::bench::{Bench, Measure, measure};
use crate::train::config::Dtype;
use burn::tensor::Device;

/// Steps that warm up, and steps that are timed, of a short measurement.
const PROBE: (usize, usize) = (2, 3);

/// Parameters, FLOPs and memory; nothing is allocated.
///
/// # Errors
/// A model that cannot learn the task.
pub fn plan(experiment: &Experiment, shape: &Shape) -> Result<ModelCost> {
    let question = Question {
        model: &experiment.model,
        task: Some(&experiment.task),
        shape,
        micro_batch_size: rows(experiment, shape.context),
        moments: experiment.optimizer.moments(),
        ema: experiment.train.ema.is_some(),
        value_bytes: match experiment.train.dtype {
            Dtype::F32 => 4,
            Dtype::Bf16 | Dtype::F16 => 2,
        },
    };
    plan::plan(&question, &Device::default())
}

/// Tokens or images of an optimizer step, as the journal counts them: of pairs, both sides. Where examples differ in
/// length it is the most that a step can have: all are as long as they may be, and so is the shorter side of a pair,
/// which `batch_tokens` does not count.
pub fn items_per_step(experiment: &Experiment, shape: &Shape) -> f64 {
    let config = &experiment.train;
    let sides = plan::sides(Some(&experiment.task)) as f64;
    match (config.batch_tokens, experiment.model.item()) {
        (Some(tokens), _) => sides * tokens as f64,
        (None, ItemOf::Image) => config.batch_size as f64,
        (None, ItemOf::Token | ItemOf::Pair) => {
            sides * config.batch_size as f64 * shape.context.max(1) as f64
        }
    }
}

/// Milliseconds of a step: the median of a few, from fresh weights.
///
/// # Errors
/// A device that is not there, a model that cannot learn the task, a step that fails.
pub fn step_ms(experiment: &Experiment, data: &Data) -> Result<f64> {
    Ok(measured(experiment, data, PROBE, false)?.step_ms_median)
}

/// Steps from fresh weights, `(warm-up, timed)` of them.
///
/// # Errors
/// As [`step_ms`].
pub fn measured(
    experiment: &Experiment,
    data: &Data,
    (warmup, steps): (usize, usize),
    profile: bool,
) -> Result<Measure> {
    let device = assemble::device(experiment, true)?;
    let model = assemble::objective(experiment, &data.shape, &device)?;
    let bench = Bench {
        config: &experiment.train,
        optimizer: &experiment.optimizer,
        schedule: &assemble::schedule(experiment),
        seed: experiment.seed,
        train: data.train.clone(),
        profile,
    };
    measure(model, &bench, warmup, steps)
}

/// Examples that are in memory at once.
fn rows(experiment: &Experiment, context: usize) -> usize {
    let config = &experiment.train;
    match (config.micro_batch_size, config.batch_tokens) {
        (None, Some(tokens)) => tokens.div_ceil(context.max(1)),
        (Some(_), _) | (None, None) => config.micro_batch_size(),
    }
}
