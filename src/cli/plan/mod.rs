//! `formwork plan`: computes what a model costs and how it can be exported, before training.

mod ranks;

use super::flags::Keys;
use super::output;
use super::sweep::base_note;
use crate::data::Shape;
use crate::device;
use crate::error::{Error, Result};
use crate::experiment::{self, Experiment, assemble, cost, epochs, export, run_contents};
use crate::plan::ranks::DistributedCost;
use crate::plan::{ModelCost, PlanRequest, plan};
use crate::report::render::terminal::{duration, number};
use crate::train::machine;
use crate::train::run_dir;
use clap::Args;
use std::path::{Path, PathBuf};

/// `formwork plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The experiment file, or the folder of a run, trained or imported.
    #[arg(required_unless_present = "preset", conflicts_with = "preset", value_parser = crate::cli::flags::run_folder())]
    file: Option<PathBuf>,
    /// A model preset instead of a file; `formwork list presets` shows them.
    #[arg(long, value_name = "NAME", conflicts_with = "Keys")]
    preset: Option<String>,
    #[command(flatten)]
    keys: Keys,
    /// Do not time a few training steps of the experiment.
    #[arg(long)]
    no_probe: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ranks: ranks::RanksArgs,
}

/// Step time measured by a probe, and the number of steps it is applied to.
struct Probe {
    step_ms: f64,
    steps: u64,
    hit_time_limit: bool,
}

/// Runs `formwork plan`.
///
/// # Errors
/// If the preset is unknown, the experiment is invalid, or data is missing.
pub fn run(args: PlanArgs) -> Result<()> {
    let planned = match (&args.preset, &args.file) {
        (Some(name), _) => {
            args.ranks.require_power()?;
            PlanResult {
                cost: of_preset(name)?,
                together: 0,
                probe: None,
                export: None,
            }
        }
        (None, Some(folder)) if folder.is_dir() => {
            run_dir::require_run(folder)?;
            of_run(folder, &args)?
        }
        (None, Some(file)) => of_file(file, &args)?,
        (None, None) => return Err(Error::usage("give an experiment file or --preset NAME")),
    };
    let step_ms = planned.probe.as_ref().map(|p| p.step_ms);
    let rows = args.ranks.rows(&planned.cost, planned.together, step_ms);
    if args.json {
        output::line(json(&planned, &rows).to_string())
    } else {
        show(&planned)?;
        ranks::show(&rows)
    }
}

fn of_preset(name: &str) -> Result<ModelCost> {
    let preset = experiment::parse_preset(name)
        .map_err(|e| Error::usage(format!("--preset {name}: {e}")))?;
    let shape = preset.shape();
    plan(&PlanRequest::of(&preset.model, &shape), &device::host())
}

/// Results for a model.
struct PlanResult {
    cost: ModelCost,
    /// Bytes of optimizer moments that a single rank must keep as a whole.
    together: u64,
    probe: Option<Probe>,
    /// The Hugging Face family that it can be exported as, or why there is none; absent for a model without a task.
    export: Option<Result<&'static str, String>>,
}

/// The family that a model can be exported as, or the first reason why there is none.
fn export_family(
    experiment: &Experiment,
    shape: &Shape,
    run: Option<&Path>,
) -> Result<&'static str, String> {
    export::family(experiment, shape, run).map_err(|error| error.to_string())
}

/// The cost of training a run's model further, based on the data shape that it was built for.
fn of_run(folder: &Path, args: &PlanArgs) -> Result<PlanResult> {
    let loaded = experiment::load(&folder.join(run_dir::RESOLVED), &args.keys.sets())?;
    experiment::check::check_without_files(&loaded)?;
    args.ranks.require(&loaded.experiment)?;
    let shape = run_contents::shape(folder)?;
    let cost = cost::plan(&loaded.experiment, &loaded.places(), &shape)?;
    Ok(PlanResult {
        together: unsharded_moments(&cost, &loaded.experiment),
        cost,
        probe: None,
        export: Some(export_family(&loaded.experiment, &shape, Some(folder))),
    })
}

fn unsharded_moments(plan: &ModelCost, experiment: &Experiment) -> u64 {
    let optimizer = &experiment.optimizer;
    plan.largest
        .whole_update_bytes(optimizer.moments(), optimizer.updated_whole())
}

fn of_file(file: &Path, args: &PlanArgs) -> Result<PlanResult> {
    let loaded = experiment::load(file, &args.keys.sets())?;
    experiment::check(&loaded)?;
    base_note::note_base(&loaded);
    let experiment = &loaded.experiment;
    args.ranks.require(experiment)?;
    let places = loaded.places();
    let data = assemble::training_data(&loaded)?;
    let cost = cost::plan(experiment, &places, &data.shape)
        .map_err(|error| experiment::locate_error(&loaded, error))?;
    let mut planned = PlanResult {
        together: unsharded_moments(&cost, experiment),
        cost,
        probe: None,
        export: Some(export_family(experiment, &data.shape, None)),
    };
    // Memory in bytes that the system can still provide; unlimited if it does not report that.
    let available = machine::read_proc_bytes("/proc/meminfo", "MemAvailable").unwrap_or(u64::MAX);
    if args.no_probe || args.ranks.has_step_time() || planned.cost.memory() > available {
        return Ok(planned);
    }
    let time = cost::step_ms(experiment, &places, &data)
        .map_err(|error| experiment::locate_error(&loaded, error))?;
    planned.probe = Some(Probe {
        step_ms: time.ms,
        hit_time_limit: time.hit_time_limit,
        steps: epochs::steps(experiment, &data).unwrap_or(experiment.train.steps),
    });
    Ok(planned)
}

fn json(planned: &PlanResult, rows: &[DistributedCost]) -> serde_json::Value {
    let plan = &planned.cost;
    let mut object = serde_json::json!({
        "params": plan.params,
        "trained_params": plan.trained,
        "active_params": plan.active,
        "kept_params": plan.kept,
        "flops_per_item": plan.flops_per_item,
        "parts": plan.parts,
        "memory_bytes": plan.memory_bytes,
        "checkpoint_bytes": plan.checkpoint_bytes,
    });
    match &planned.export {
        Some(Ok(family)) => object["export"] = serde_json::json!({ "family": family }),
        Some(Err(reason)) => object["export"] = serde_json::json!({ "reason": reason }),
        None => {}
    }
    if let Some(probe) = &planned.probe {
        object["probe"] = serde_json::json!({
            "step_ms": probe.step_ms,
            "cut": probe.hit_time_limit,
            "steps": probe.steps,
            "seconds": probe.step_ms / 1e3 * probe.steps as f64,
        });
    }
    if !rows.is_empty() {
        object["ranks"] = serde_json::json!(rows);
    }
    object
}

fn show(planned: &PlanResult) -> Result<()> {
    let plan = &planned.cost;
    match plan.active == plan.params {
        true => output::line(format!("{} parameters", plan.params))?,
        false => output::line(format!(
            "{} parameters, of which a token uses {}",
            plan.params, plan.active
        ))?,
    }
    if plan.trained < plan.params {
        let share = 100.0 * plan.trained as f64 / plan.params as f64;
        output::line(format!(
            "{} of them are trained ({share:.2} %), the others are frozen",
            plan.trained
        ))?;
    }
    if plan.kept < plan.params {
        output::line(format!(
            "{} of them are kept for inference, without those that only training uses",
            plan.kept
        ))?;
    }
    for (part, count) in &plan.parts {
        let share = 100.0 * *count as f64 / plan.params as f64;
        output::line(format!("  {part:12} {count:>15}  {share:5.1} %"))?;
    }
    output::line(format!(
        "{} FLOPs per {} of training",
        number(plan.flops_per_item),
        plan.item
    ))?;
    output::line(format!(
        "{} of memory (activations are an estimate)",
        megabytes(plan.memory())
    ))?;
    for (part, bytes) in &plan.memory_bytes {
        output::line(format!("  {part:12} {:>15}", megabytes(*bytes)))?;
    }
    output::line(format!(
        "{} on disk for a checkpoint",
        megabytes(plan.checkpoint_bytes)
    ))?;
    match &planned.export {
        Some(Ok(family)) => output::line(format!("exports to Hugging Face as `{family}`"))?,
        Some(Err(reason)) => output::line(format!("does not export to Hugging Face: {reason}"))?,
        None => {}
    }
    if let Some(probe) = &planned.probe {
        output::line(format!(
            "{:.1} ms a step in a short probe: {} for {} steps, without evaluations",
            probe.step_ms,
            duration(probe.step_ms / 1e3 * probe.steps as f64),
            probe.steps
        ))?;
        if probe.hit_time_limit {
            output::line(format!(
                "  the probe was stopped after {}, before it had timed all of its steps",
                duration(cost::PROBE_LIMIT.as_secs_f64())
            ))?;
        }
    }
    Ok(())
}

/// Formats a size: in MB, so that a column has one unit, until the digits become hard to read. `u64::MAX` stands for any size
/// of at least that many bytes.
fn megabytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        u64::MAX => return "more than any machine has".into(),
        0..100_000_000_000 => (1e6, "MB"),
        100_000_000_000..100_000_000_000_000 => (1e9, "GB"),
        _ => (1e12, "TB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit)
}
