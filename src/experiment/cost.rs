//! The cost of an experiment before it is trained: parameters, FLOPs, memory, the time of a step.

use super::{Experiment, assemble, average, judge, open, teacher, training};
use crate::data::{Data, Places, Shape};
use crate::device;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::model::ItemOf;
use crate::plan::{self, ModelCost, Question};
use crate::report::render::terminal::bytes;
use crate::train::bench::{Bench, Measure, measure};
use crate::train::config::Dtype;
use crate::train::machine;
use std::time::Duration;

/// Steps that warm up, and steps that are timed, of a short measurement.
const PROBE: (usize, usize) = (2, 3);

/// Parameters, FLOPs and memory; nothing is allocated.
///
/// # Errors
/// A model that cannot learn the task; a teacher, a reference or a run of rewards that is not there.
pub fn plan(experiment: &Experiment, places: &Places, shape: &Shape) -> Result<ModelCost> {
    let question = question(experiment, shape);
    let mut cost = plan::plan(&question, &device::host())?;
    if let Some(bytes) = weights_of_rewards(experiment, places, shape)? {
        cost.memory_bytes.insert("rewards", bytes);
    }
    let Some(teacher) = teacher::stored(experiment, places)? else {
        return Ok(cost);
    };
    // It reads what the student reads, and has no gradients.
    let theirs = plan::plan(
        &Question {
            ema: false,
            lora: None,
            recompute: false,
            micro_batch_size: question.micro_batch_size,
            ..self::question(&teacher, shape)
        },
        &device::host(),
    )?;
    cost.flops_per_item += theirs.flops_per_item / plan::FORWARDS;
    let weights = theirs.memory_bytes.get("parameters").copied();
    let called = teacher::named(experiment).map_or("teacher", |named| named.called);
    cost.memory_bytes
        .insert(called, weights.unwrap_or_default());
    Ok(cost)
}

/// Bytes of the weights of the run that gives rewards, where one does.
fn weights_of_rewards(
    experiment: &Experiment,
    places: &Places,
    shape: &Shape,
) -> Result<Option<u64>> {
    let Some(folder) = judge::folder(experiment, places)? else {
        return Ok(None);
    };
    let theirs = open::stored(&folder)?;
    let shape = Shape {
        context: theirs.data.context(),
        ..shape.clone()
    };
    let question = Question {
        ema: false,
        lora: None,
        recompute: false,
        micro_batch_size: 1,
        ..question(&theirs, &shape)
    };
    let cost = plan::plan(&question, &device::host())?;
    Ok(cost.memory_bytes.get("parameters").copied())
}

/// The run that is planned.
fn question<'a>(experiment: &'a Experiment, shape: &'a Shape) -> Question<'a> {
    Question {
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

/// Bytes that this run may take, and what gives them, as the beginning of a sentence: the variable [`machine::LIMIT`] in
/// place of the machine. None where the memory is a device's, or where the system does not tell.
///
/// # Errors
/// A variable that is no size, a device that is not known.
pub fn limit(experiment: &Experiment) -> Result<Option<(u64, String)>> {
    let given = std::env::var(machine::LIMIT).unwrap_or_default();
    let (limit, gives) = match given.as_str() {
        "" => (
            machine::memory(),
            "this machine, or its control group, gives".to_string(),
        ),
        _ => {
            let size = machine::size(&given).ok_or_else(|| {
                Error::usage(format!(
                    "the variable {} = {given:?} is no size; write bytes, or 64G",
                    machine::LIMIT
                ))
            })?;
            (Some(size), format!("the variable {} gives", machine::LIMIT))
        }
    };
    let here = experiment.train.device.parse::<DeviceName>()?.is_cpu();
    Ok(limit.filter(|_| here).map(|limit| (limit, gives)))
}

/// An error when a model needs more memory than there is ([`limit`]), before any of it is taken. What the parameters, their
/// gradients and the optimizer need is exact; what activations need is an estimate.
///
/// # Errors
/// Too little memory; a variable that is no size; a model that cannot learn the task.
pub fn require_memory(experiment: &Experiment, places: &Places, shape: &Shape) -> Result<()> {
    let Some((limit, gives)) = limit(experiment)? else {
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
        "the run needs about {} of memory ({}), and {gives} {}; take a smaller model, micro_batch_size or context, or, if \
         the estimate is wrong, set {}=SIZE",
        bytes(plan.memory()),
        parts.join(", "),
        bytes(limit),
        machine::LIMIT
    )))
}

/// Tokens, images or recordings of an optimizer step, as the journal counts them: of pairs, both sides. Where examples differ in
/// length it is the most that a step can have: all are as long as they may be, and so is the shorter side of a pair,
/// which `batch_tokens` does not count.
pub fn items_per_step(experiment: &Experiment, shape: &Shape) -> f64 {
    let config = &experiment.train;
    let context = shape.context.max(1);
    let written = plan::written(Some(&experiment.task), context);
    match (config.batch_tokens, experiment.model.item()) {
        (Some(tokens), _) if written.is_some() => 2.0 * tokens as f64,
        (Some(tokens), _) => tokens as f64,
        (None, ItemOf::Image | ItemOf::Recording) => config.batch_size as f64,
        (None, ItemOf::Token | ItemOf::Pair) => {
            let rows = config.batch_size as f64 * experiment.task.facts().rows_of_each() as f64;
            rows * (context + written.unwrap_or(0)) as f64
        }
    }
}

/// How long a probe of a step's time may take; it is looked at between micro-batches.
pub const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// The time of a step, as a probe found it.
#[derive(Clone, Copy, Debug)]
pub struct StepTime {
    /// Milliseconds.
    pub ms: f64,
    /// Whether the probe took as long as it may, and fewer steps than it should have timed.
    pub cut: bool,
}

/// The time of a step: the median of a few, from fresh weights.
///
/// # Errors
/// A device that is not there, a model that cannot learn the task, a step that fails.
pub fn step_ms(experiment: &Experiment, places: &Places, data: &Data) -> Result<StepTime> {
    step_ms_within(experiment, places, data, PROBE_LIMIT)
}

/// [`step_ms`] of a probe that takes no longer than this and a micro-batch.
///
/// # Errors
/// As [`step_ms`].
pub fn step_ms_within(
    experiment: &Experiment,
    places: &Places,
    data: &Data,
    limit: Duration,
) -> Result<StepTime> {
    let of = (experiment, places, data);
    let measure = measure_within(of, PROBE, false, Some(limit))?;
    Ok(StepTime {
        ms: measure.step_ms_median,
        cut: measure.cut,
    })
}

/// Steps from fresh weights, `(warm-up, timed)` of them.
///
/// # Errors
/// As [`step_ms`].
pub fn measured(
    experiment: &Experiment,
    places: &Places,
    data: &Data,
    steps: (usize, usize),
    profile: bool,
) -> Result<Measure> {
    measure_within((experiment, places, data), steps, profile, None)
}

fn measure_within(
    (experiment, places, data): (&Experiment, &Places, &Data),
    (warmup, steps): (usize, usize),
    profile: bool,
    limit: Option<Duration>,
) -> Result<Measure> {
    require_memory(experiment, places, &data.shape)?;
    let device = assemble::device(experiment, true)?;
    let model = assemble::objective(experiment, &data.shape, &device)?;
    let model = teacher::taught(experiment, places, data, None, model)?.model;
    let of_data = (&data.shape, &data.tokenizers);
    let (model, _) = judge::judged(experiment, places, of_data, None, model)?;
    let bench = Bench {
        config: &experiment.train,
        optimizer: &experiment.optimizer,
        schedule: &training::schedule(experiment),
        seed: experiment.seed,
        train: data.train.clone(),
        profile,
        limit,
        route: training::route(experiment),
    };
    measure(model, &bench, warmup, steps)
}

/// Rows that are in memory at once.
fn rows(experiment: &Experiment, context: usize) -> usize {
    let config = &experiment.train;
    let examples = match (config.micro_batch_size, config.batch_tokens) {
        (None, Some(tokens)) => tokens.div_ceil(context.max(1)),
        (Some(_), _) | (None, None) => config.micro_batch_size(),
    };
    examples.saturating_mul(experiment.task.facts().rows_of_each())
}
