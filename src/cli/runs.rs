//! `formwork runs`: the runs below a folder, a line each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::output;
use crate::error::{Error, Result};
use crate::report::analyse::metrics::more_is_better;
use crate::report::read::run::{self, Run};
use crate::report::render::table::table;
use crate::report::render::terminal::{duration, number};
use crate::train::run_dir;

/// Folders below the one that is named; a sweep's runs lie three deep.
const DEEPEST: usize = 5;
/// The key of the metric that decides which checkpoint is the best.
const BEST: &str = "train.best_by";

/// `formwork runs`.
#[derive(Args, Debug)]
pub struct RunsArgs {
    /// Folder of runs and sweeps, at any depth.
    #[arg(default_value = "checkpoints", value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Print one JSON array.
    #[arg(long)]
    pub json: bool,
}

/// A run, or why the folder of one cannot be read.
struct Shown {
    path: PathBuf,
    run: std::result::Result<Run, String>,
    training: bool,
    /// Seconds since its journal was last written.
    age: Option<f64>,
}

/// Prints the runs, the one that was written last at the top.
///
/// # Errors
/// No such folder.
pub fn run(args: RunsArgs) -> Result<()> {
    if !args.folder.is_dir() {
        return Err(Error::usage(format!(
            "no folder {}; runs lie in `checkpoints` unless --run named another",
            args.folder.display()
        )));
    }
    let mut folders = Vec::new();
    find(&args.folder, DEEPEST, &mut folders);
    let mut runs: Vec<Shown> = folders.into_par_iter().map(shown).collect();
    runs.sort_by(|a, b| {
        let age = |run: &Shown| run.age.unwrap_or(f64::INFINITY);
        age(a).total_cmp(&age(b)).then(a.path.cmp(&b.path))
    });
    if args.json {
        let all: Vec<Value> = runs.iter().map(as_json).collect();
        return output::line(Value::Array(all).to_string());
    }
    if runs.is_empty() {
        output::note(format!("no runs below {}", args.folder.display()));
        return Ok(());
    }
    let header = ["run", "state", "step", "score", "written"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    rows.extend(runs.iter().map(row));
    output::part(table(&rows, None))
}

/// The folders of runs below one, links left out.
fn find(folder: &Path, deep: usize, all: &mut Vec<PathBuf>) {
    if run_dir::is_run(folder) {
        all.push(folder.to_path_buf());
        return;
    }
    let Some(deep) = deep.checked_sub(1) else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        // The type of a link is that of the link: it may lead back here.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&entry.path(), deep, all);
        }
    }
}

fn shown(path: PathBuf) -> Shown {
    let written = fs::metadata(path.join(run_dir::METRICS)).and_then(|about| about.modified());
    let age = written.ok().map(|at| {
        let since = SystemTime::now().duration_since(at);
        since.map_or(0.0, |since| since.as_secs_f64())
    });
    Shown {
        run: run::read(&path).map_err(|e| e.to_string()),
        training: run_dir::is_busy(&path),
        age,
        path,
    }
}

/// Where a run stands: in training, at its end, diverged, failed, or stopped on the way.
fn state(run: &Run, training: bool) -> &'static str {
    match () {
        () if training => "training",
        () if run.failed() => "failed",
        () if run.diverged().is_some() => "diverged",
        () if run.stopped_early() => "stopped early",
        () if run.done() => "done",
        () => "stopped",
    }
}

/// The best validation value of the metric that decides, and its name.
fn score(run: &Run) -> Option<(String, f64)> {
    let setting = |key: &str| run.settings.iter().find(|(name, _)| name == key);
    let metric = setting(BEST).map_or("loss", |(_, metric)| metric.trim_matches('"'));
    let metric = metric.strip_prefix("valid_").unwrap_or(metric);
    let values = run.series("valid", metric).iter().map(|point| point.value);
    let better = |a: f64, b: f64| match more_is_better(metric) {
        true => a.max(b),
        false => a.min(b),
    };
    let best = values.filter(|value| value.is_finite()).reduce(better)?;
    Some((format!("valid_{metric}"), best))
}

fn row(shown: &Shown) -> Vec<String> {
    let age = shown
        .age
        .map_or("–".into(), |age| format!("{} ago", duration(age)));
    let path = shown.path.display().to_string();
    match &shown.run {
        Err(why) => {
            let why = why.lines().next().unwrap_or_default().to_owned();
            vec![
                path,
                format!("unreadable: {why}"),
                String::new(),
                String::new(),
                age,
            ]
        }
        Ok(run) => {
            let step = run.journal.last_step;
            let step = run
                .steps
                .map_or(step.to_string(), |of| format!("{step} of {of}"));
            let score =
                score(run).map_or("–".into(), |(name, x)| format!("{name} {}", number(x)));
            vec![path, state(run, shown.training).into(), step, score, age]
        }
    }
}

fn as_json(shown: &Shown) -> Value {
    let path = shown.path.display().to_string();
    match &shown.run {
        Err(why) => json!({ "run": path, "state": "unreadable", "error": why, "age_s": shown.age }),
        Ok(run) => {
            let score = score(run);
            json!({
                "run": path,
                "name": run.name,
                "seed": run.seed,
                "state": state(run, shown.training),
                "step": run.journal.last_step,
                "steps": run.steps,
                "metric": score.as_ref().map(|(name, _)| name),
                "score": score.as_ref().map(|(_, value)| value),
                "age_s": shown.age,
            })
        }
    }
}
