//! `formwork verify`: trains an experiment and checks the result against its `[expect]`.
//!
//! If an experiment starts from another one, or learns from it, that one is trained first, once for all files that name it.

use super::flags::Keys;
use super::output;
use crate::error::{Error, Result};
use crate::experiment::prerequisite::canonical;
use crate::experiment::{self, LoadedExperiment, run};
use crate::report::render::terminal::number;
use crate::train::job::Outcome;
use clap::Args;
use std::path::{Path, PathBuf};

/// Folder of verification runs, separate from those of `train`: they are replaced without asking.
const RUNS: &str = "checkpoints/verify";

/// `formwork verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Experiment files with an [expect] table; experiments that they start from or learn from are trained first.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    keys: Keys,
    /// Folder of the runs, each under its experiment's name; an earlier run of that name in it is replaced.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
}

/// Runs `formwork verify`.
///
/// # Errors
/// If any file is invalid, a run fails, or an expectation is missed. The other files are verified all the same.
pub fn run(args: VerifyArgs) -> Result<()> {
    // All files are checked before the first run is trained.
    let mut order = TrainingOrder::default();
    for file in &args.files {
        let loaded = order.take(file, &args)?;
        if loaded.experiment.expect.is_empty() {
            return Err(Error::usage(format!(
                "{} has no [expect] table to check the result against",
                file.display()
            )));
        }
    }
    let (mut missed, mut failed) = (0, Vec::new());
    for loaded in &order.0 {
        let name = &loaded.experiment.name;
        let folder = args.runs.join(name);
        let outcome = match train_experiment(loaded, &folder, &failed) {
            Ok(outcome) => outcome,
            Err(error) if concerns_single_run(&error) => {
                output::line(format!("MISSED  {name}: the run ended: {error}"))?;
                missed += loaded.experiment.expect.len().max(1);
                failed.push(folder);
                continue;
            }
            Err(error) => return Err(error),
        };
        if loaded.experiment.expect.is_empty() {
            output::line(format!("trained  {name}: {} steps", outcome.step))?;
        }
        missed += check_expectations(loaded, &outcome)?;
    }
    if missed > 0 {
        return Err(Error::run(match missed {
            1 => "1 expectation was missed".to_string(),
            n => format!("{n} expectations were missed"),
        }));
    }
    Ok(())
}

/// Trains an experiment, unless a run that it needs has failed.
fn train_experiment(
    loaded: &LoadedExperiment,
    folder: &Path,
    failed: &[PathBuf],
) -> Result<Outcome> {
    let mut needed = loaded.prerequisites.iter();
    if let Some(before) = needed.find(|before| failed.contains(&before.run)) {
        return Err(Error::run(format!(
            "it needs {}, which failed",
            before.run.display()
        )));
    }
    if !loaded.prerequisites.is_empty() {
        // Checks what only the runs of prerequisites can show.
        experiment::check(loaded)?;
    }
    run::train(loaded, folder, run::Start::Fresh, run::Options::quiet())
}

/// Whether an error concerns a single run, such as divergence. Invalid experiments and requests to stop end the command.
fn concerns_single_run(error: &Error) -> bool {
    matches!(error, Error::Run(_) | Error::Io { .. })
}

/// The experiments in training order: each after those that it needs.
#[derive(Default)]
struct TrainingOrder(Vec<LoadedExperiment>);

impl TrainingOrder {
    /// Reads and checks a file after those that it needs; a file that was added before is not added again.
    fn take(&mut self, file: &Path, args: &VerifyArgs) -> Result<LoadedExperiment> {
        let same = |loaded: &&LoadedExperiment| canonical(&loaded.path) == canonical(file);
        if let Some(taken) = self.0.iter().find(same) {
            return Ok(taken.clone());
        }
        let loaded = experiment::load_with_runs(file, &args.keys.sets(), &args.runs)?;
        for before in &loaded.prerequisites {
            self.take(&before.file, args)?;
        }
        experiment::check_with_prerequisites(&loaded)?;
        let name = &loaded.experiment.name;
        let run = args.runs.join(name);
        let mut needed = self.0.iter().flat_map(|other| &other.prerequisites);
        if needed.any(|before| before.run == run && canonical(&before.file) != canonical(file)) {
            return Err(Error::usage(format!(
                "{} would replace the run {} that another experiment starts from or learns from, because two experiments have \
                 the name \"{name}\"; rename one of them",
                file.display(),
                run.display()
            )));
        }
        self.0.push(loaded.clone());
        Ok(loaded)
    }
}

/// Prints the result of each expectation; returns how many were missed.
fn check_expectations(loaded: &LoadedExperiment, outcome: &Outcome) -> Result<usize> {
    let mut missed = 0;
    let name = &loaded.experiment.name;
    for (metric, expect) in &loaded.experiment.expect {
        let value = metric_value(metric, outcome);
        let holds = value.is_some_and(|value| expect.holds(value));
        missed += usize::from(!holds);
        let shown = value.map_or("not measured".to_string(), number);
        let verdict = if holds { "holds" } else { "MISSED" };
        let missed_bounds = value
            .map(|value| expect.missed_by(value))
            .unwrap_or_default();
        let which = match missed_bounds.as_slice() {
            [] => String::new(),
            bounds => format!("; not {}", bounds.join(", not ")),
        };
        output::line(format!(
            "{verdict}  {name}: {metric} {shown} (expected {expect}{which})"
        ))?;
    }
    Ok(missed)
}

/// The value of a metric named as in `[expect]`: `valid_loss`, or any metric of the last evaluation with or without the prefix
/// `valid_`.
fn metric_value(metric: &str, outcome: &Outcome) -> Option<f64> {
    let scores = outcome.last.as_ref()?;
    match metric.strip_prefix("valid_").unwrap_or(metric) {
        "loss" => Some(scores.loss),
        "best_loss" => outcome.best.map(|(_, loss)| loss),
        name => scores.metrics.get(name).copied(),
    }
}
