//! `formwork verify`: trains an experiment and holds the result against its `[expect]`.

use super::output;
use crate::error::{Error, Result};
use crate::experiment::{self, run};
use crate::report::render::terminal::number;
use clap::Args;
use std::path::PathBuf;

/// Runs made to be judged, apart from those that `train` makes: they are replaced without asking.
const RUNS: &str = "checkpoints/verify";

/// `formwork verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Experiment files with an [expect] table.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Override a key of every file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Folder of the runs, each under its experiment's name; an earlier run of that name in it is replaced.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
}

/// Runs `formwork verify`.
///
/// # Errors
/// Faults of any file, a run that fails, an expectation that is missed.
pub fn run(args: VerifyArgs) -> Result<()> {
    // All files are checked before the first one trains.
    let mut loaded = Vec::new();
    for file in &args.files {
        let experiment = experiment::load(file, &args.sets)?;
        experiment::check(&experiment)?;
        if experiment.experiment.expect.is_empty() {
            return Err(Error::usage(format!(
                "{} has no [expect] table to hold the result against",
                file.display()
            )));
        }
        loaded.push(experiment);
    }
    let mut missed = 0;
    for loaded in &loaded {
        let name = &loaded.experiment.name;
        let folder = args.runs.join(name);
        let outcome = run::train(loaded, &folder, run::Start::Fresh, run::Options::quiet())?;
        for (metric, expect) in &loaded.experiment.expect {
            let value = measured(metric, &outcome);
            let (holds, wanted) = match value {
                Some(value) => (expect.holds(value), expect.to_string()),
                None => (false, expect.to_string()),
            };
            missed += usize::from(!holds);
            let shown = value.map_or("not measured".to_string(), number);
            let verdict = if holds { "holds" } else { "MISSED" };
            output::line(format!(
                "{verdict}  {name}: {metric} {shown} (expected {wanted})"
            ))?;
        }
    }
    if missed > 0 {
        return Err(Error::run(format!("{missed} expectations were missed")));
    }
    Ok(())
}

/// The value of a metric named as in `[expect]`: `valid_loss`, or any metric of the last evaluation with or
/// without `valid_` before it.
fn measured(metric: &str, outcome: &crate::train::job::Outcome) -> Option<f64> {
    let scores = outcome.last.as_ref()?;
    match metric.strip_prefix("valid_").unwrap_or(metric) {
        "loss" => Some(scores.loss),
        "best_loss" => outcome.best.map(|(_, loss)| loss),
        name => scores.metrics.get(name).copied(),
    }
}
