//! What a run records besides its metrics: diagnostics, and copies of the journals for other programs.

mod diagnosed;
pub mod events;
mod readings;
mod table;

use crate::binary::output;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Trains the smallest experiment into `run` with these keys.
fn train(run: &Path, sets: &[&str]) {
    let shown = run.display().to_string();
    let mut arguments = vec!["train", "experiments/smoke/tiny.toml", "--quiet", "--run"];
    arguments.push(&shown);
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
}

/// Resumes the run in `run` with these keys.
fn resume(run: &Path, sets: &[&str]) {
    let shown = run.display().to_string();
    let mut arguments = vec!["resume", &shown, "--quiet"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
}

/// Reads the objects of a JSON Lines file.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}
