//! `formwork runs`: lists the runs below a folder, one per line.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::output;
use crate::error::{Error, Result};
use crate::report::read::listing::{self, IMPORTED, RunListing};
use crate::report::render::table::table;
use crate::report::render::terminal::{duration, number};

/// `formwork runs`.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Folder of runs and sweeps, at any depth.
    #[arg(default_value = "checkpoints", value_name = "FOLDER", value_parser = super::flags::run_folder())]
    pub folder: PathBuf,
    /// Print one JSON array.
    #[arg(long)]
    pub json: bool,
}

/// Prints the runs, the most recently written one first.
///
/// # Errors
/// If there is no such folder.
pub fn run(args: RunsArgs) -> Result<()> {
    if !args.folder.is_dir() {
        return Err(Error::usage(format!(
            "there is no folder {}; runs are in `checkpoints` unless --run named another folder",
            args.folder.display()
        )));
    }
    let folders = listing::find(&args.folder).runs;
    let mut runs: Vec<RunListing> = folders.into_par_iter().map(RunListing::read).collect();
    runs.sort_by(|a, b| b.written.cmp(&a.written).then(a.path.cmp(&b.path)));
    if args.json {
        let all: Vec<Value> = runs.iter().map(as_json).collect();
        return output::line(Value::Array(all).to_string());
    }
    if runs.is_empty() {
        output::note(format!("no runs in {}", args.folder.display()));
        return Ok(());
    }
    let header = ["run", "state", "step", "score", "written"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    rows.extend(runs.iter().map(row));
    output::line_part(table(&rows, None))
}

/// Seconds since the journal of a run was last written.
fn age(run: &RunListing) -> Option<f64> {
    let since = SystemTime::now().duration_since(run.written?);
    Some(since.map_or(0.0, |since| since.as_secs_f64()))
}

/// The best value of the deciding metric, and the metric's name with the split.
fn score(run: &RunListing) -> Option<(String, f64)> {
    let (metric, best) = run.score()?;
    Some((format!("valid_{metric}"), best.value))
}

fn row(run: &RunListing) -> Vec<String> {
    let age = age(run).map_or("–".into(), |age| format!("{} ago", duration(age)));
    let path = run.path.display().to_string();
    let heading = match &run.heading {
        Ok(heading) => heading,
        Err(why) => {
            let why = why.lines().next().unwrap_or_default();
            let unreadable = format!("unreadable: {why}");
            return vec![path, unreadable, String::new(), String::new(), age];
        }
    };
    let step = run.progress.last_step;
    let steps = heading.steps;
    let step = match steps {
        _ if run.state() == IMPORTED => "–".into(),
        Some(of) => format!("{step} of {of}"),
        None => step.to_string(),
    };
    let score = score(run).map_or("–".into(), |(name, x)| format!("{name} {}", number(x)));
    vec![path, run.state().into(), step, score, age]
}

fn as_json(run: &RunListing) -> Value {
    let (path, age) = (run.path.display().to_string(), age(run));
    match &run.heading {
        Err(why) => json!({ "run": path, "state": "unreadable", "error": why, "age_s": age }),
        Ok(heading) => {
            let score = score(run);
            json!({
                "run": path,
                "name": heading.name,
                "seed": heading.seed,
                "state": run.state(),
                "step": run.progress.last_step,
                "steps": heading.steps,
                "metric": score.as_ref().map(|(name, _)| name),
                "score": score.as_ref().map(|(_, value)| value),
                "age_s": age,
            })
        }
    }
}
