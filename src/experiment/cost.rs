//! The cost of an experiment before training: parameters, FLOPs, memory, and the time of a step.

use super::{Experiment, assemble, average, judge, open, teacher, training};
use crate::data::{Data, SearchPath, Shape};
use crate::device;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::model::ThroughputUnit;
use crate::plan::{self, ModelCost, PlanRequest};
use crate::report::render::terminal::bytes;
use crate::train::bench::{Bench, Measurement, measure};
use crate::train::config::Dtype;
use crate::train::machine;
use std::time::Duration;

/// Warmup steps and timed steps of a short measurement.
const PROBE: (usize, usize) = (2, 3);

/// Computes parameters, FLOPs and memory without allocating anything.
///
/// # Errors
/// If the model cannot learn the task, or a teacher, reference or reward run does not exist.
pub fn plan(experiment: &Experiment, places: &SearchPath, shape: &Shape) -> Result<ModelCost> {
    let question = plan_request(experiment, shape);
    let mut cost = plan::plan(&question, &device::host())?;
    if let Some(bytes) = weights_of_rewards(experiment, places, shape)? {
        cost.memory_bytes.insert("rewards", bytes);
    }
    let Some(teacher) = teacher::stored_experiment(experiment, places)? else {
        return Ok(cost);
    };
    // The teacher reads the student's input and has no gradients.
    let theirs = plan::plan(
        &PlanRequest {
            ema: false,
            lora: None,
            recompute: false,
            micro_batch_size: question.micro_batch_size,
            ..self::plan_request(&teacher, shape)
        },
        &device::host(),
    )?;
    cost.flops_per_item += theirs.flops_per_item / plan::FORWARDS;
    let weights = theirs.memory_bytes.get("parameters").copied();
    let called = teacher::frozen_run(experiment).map_or("teacher", |named| named.role);
    cost.memory_bytes
        .insert(called, weights.unwrap_or_default());
    Ok(cost)
}

/// Returns the size in bytes of the reward model's weights, if a run gives rewards.
fn weights_of_rewards(
    experiment: &Experiment,
    places: &SearchPath,
    shape: &Shape,
) -> Result<Option<u64>> {
    let Some(folder) = judge::folder(experiment, places)? else {
        return Ok(None);
    };
    let theirs = open::stored_experiment(&folder)?;
    let shape = Shape {
        context: theirs.data.context(),
        ..shape.clone()
    };
    let question = PlanRequest {
        ema: false,
        lora: None,
        recompute: false,
        micro_batch_size: 1,
        ..plan_request(&theirs, &shape)
    };
    let cost = plan::plan(&question, &device::host())?;
    Ok(cost.memory_bytes.get("parameters").copied())
}

/// Describes the planned run as a question to [`plan::plan`].
fn plan_request<'a>(experiment: &'a Experiment, shape: &'a Shape) -> PlanRequest<'a> {
    PlanRequest {
        model: &experiment.model,
        task: Some(&experiment.task),
        shape,
        micro_batch_size: rows(experiment, shape.context),
        moments: experiment.optimizer.moments(),
        matrices: experiment.optimizer.matrices(),
        max_precond_dim: experiment.optimizer.max_precond_dim(),
        ema: average::rule(experiment).is_some(),
        value_bytes: match experiment.train.dtype {
            Dtype::F32 | Dtype::MixedBf16 => 4,
            Dtype::Bf16 | Dtype::F16 => 2,
        },
        lora: experiment.lora.as_ref(),
        freeze: &experiment.init.freeze,
        recompute: experiment.train.recompute,
    }
}

/// Returns the memory limit of the run in bytes and its source, worded as the beginning of a sentence: the variable
/// [`machine::MEMORY_VARIABLE`] if set, otherwise the machine. None if the run uses a device's memory, or if the system does not report a
/// limit.
///
/// # Errors
/// If the variable is not a size, or the device is unknown.
pub fn memory_limit(experiment: &Experiment) -> Result<Option<(u64, String)>> {
    let given = std::env::var(machine::MEMORY_VARIABLE).unwrap_or_default();
    let (limit, gives) = match given.as_str() {
        "" => (
            machine::available_memory(),
            "this machine, or its control group, has".to_string(),
        ),
        _ => {
            let size = machine::parse_size(&given).ok_or_else(|| {
                Error::usage(format!(
                    "the variable {} = {given:?} is not a size; write a number of bytes, or for example 64G",
                    machine::MEMORY_VARIABLE
                ))
            })?;
            (
                Some(size),
                format!("the variable {} allows", machine::MEMORY_VARIABLE),
            )
        }
    };
    let here = experiment.train.device.parse::<DeviceName>()?.is_cpu();
    Ok(limit.filter(|_| here).map(|limit| (limit, gives)))
}

/// Returns an error if the model needs more memory than there is ([`memory_limit`]), before any is allocated. The memory of the
/// parameters, their gradients and the optimizer is exact; that of activations is an estimate.
///
/// # Errors
/// If there is too little memory, the variable is not a size, or the model cannot learn the task.
pub fn require_memory(experiment: &Experiment, places: &SearchPath, shape: &Shape) -> Result<()> {
    let Some((limit, gives)) = memory_limit(experiment)? else {
        return Ok(());
    };
    let plan = plan(experiment, places, shape)?;
    if plan.memory() <= limit {
        return Ok(());
    }
    let parts = plan.memory_bytes.iter();
    let parts: Vec<String> = parts
        .map(|(part, size)| format!("{part} {}", bytes(*size)))
        .collect();
    Err(Error::usage(format!(
        "the run needs about {} of memory ({}), and {gives} {}; use a smaller model, micro_batch_size or context, or, if the \
         estimate is wrong, set {}=SIZE",
        bytes(plan.memory()),
        parts.join(", "),
        bytes(limit),
        machine::MEMORY_VARIABLE
    )))
}

/// Number of tokens, images or recordings in an optimizer step, as the journal counts them; both sides of a pair count. If
/// examples differ in length this is an upper bound: all are taken to have the maximum length, and so is the shorter side of a
/// pair, which `batch_tokens` does not count.
pub fn items_per_step(experiment: &Experiment, shape: &Shape) -> f64 {
    let config = &experiment.train;
    let context = shape.context.max(1);
    let written = plan::generated_length(Some(&experiment.task), context);
    match (config.batch_tokens, experiment.model.throughput_unit()) {
        (Some(tokens), _) if written.is_some() => 2.0 * tokens as f64,
        (Some(tokens), _) => tokens as f64,
        (None, ThroughputUnit::Image | ThroughputUnit::Recording) => config.batch_size as f64,
        (None, ThroughputUnit::Token | ThroughputUnit::Pair) => {
            let rows = config.batch_size as f64 * experiment.task.facts().rows_per_example() as f64;
            rows * (context + written.unwrap_or(0)) as f64
        }
    }
}

/// Time limit of a probe, checked between micro-batches.
pub const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// Step time that a probe measured.
#[derive(Clone, Copy, Debug)]
pub struct StepTime {
    /// Median time in milliseconds.
    pub ms: f64,
    /// Whether the probe hit its time limit and timed fewer steps than intended.
    pub hit_time_limit: bool,
}

/// Measures the time of a step: the median of a few steps from fresh weights.
///
/// # Errors
/// If the device is not available, the model cannot learn the task, or a step fails.
pub fn step_ms(experiment: &Experiment, places: &SearchPath, data: &Data) -> Result<StepTime> {
    step_ms_within(experiment, places, data, PROBE_LIMIT)
}

/// As [`step_ms`], with a probe that takes at most `limit` and one micro-batch.
///
/// # Errors
/// As [`step_ms`].
pub fn step_ms_within(
    experiment: &Experiment,
    places: &SearchPath,
    data: &Data,
    limit: Duration,
) -> Result<StepTime> {
    let of = (experiment, places, data);
    let measure = measure_within(of, PROBE, false, Some(limit))?;
    Ok(StepTime {
        ms: measure.step_ms_median,
        hit_time_limit: measure.out_of_time,
    })
}

/// Measures `steps = (warmup, timed)` steps from fresh weights.
///
/// # Errors
/// As [`step_ms`].
pub fn measure_steps(
    experiment: &Experiment,
    places: &SearchPath,
    data: &Data,
    steps: (usize, usize),
    profile: bool,
) -> Result<Measurement> {
    measure_within((experiment, places, data), steps, profile, None)
}

fn measure_within(
    (experiment, places, data): (&Experiment, &SearchPath, &Data),
    (warmup, steps): (usize, usize),
    profile: bool,
    limit: Option<Duration>,
) -> Result<Measurement> {
    require_memory(experiment, places, &data.shape)?;
    let device = assemble::device(experiment, true)?;
    let model = assemble::objective(experiment, &data.shape, &device)?;
    let model = teacher::with_teacher(experiment, places, data, None, model)?.model;
    let of_data = (&data.shape, &data.tokenizers);
    let (model, _) = judge::with_judge(experiment, places, of_data, None, model)?;
    let bench = Bench {
        config: &experiment.train,
        optimizer: &experiment.optimizer,
        schedule: &training::schedule(experiment),
        seed: experiment.seed,
        train: data.train.clone(),
        profile,
        limit,
        route: training::decided_on(experiment),
    };
    measure(model, &bench, warmup, steps)
}

/// Number of rows in memory at once.
fn rows(experiment: &Experiment, context: usize) -> usize {
    let config = &experiment.train;
    let examples = match (config.micro_batch_size, config.batch_tokens) {
        (None, Some(tokens)) => tokens.div_ceil(context.max(1)),
        (Some(_), _) | (None, None) => config.micro_batch_size(),
    };
    examples.saturating_mul(experiment.task.facts().rows_per_example())
}
