//! The lines of `metrics.jsonl`.

use super::checkpoint::Window;
use super::evaluation::Scores;
use super::job::Report;
use super::machine;
use crate::task::StepOutput;
use serde_json::{Map, Value, json};

/// Adds a step to the sums of the next line.
pub fn add(window: &mut Window, step: &StepOutput, grad_norm: f64) {
    window.steps += 1;
    window.loss += step.loss.sum;
    window.weight += step.loss.weight;
    window.grad_norm += grad_norm;
    for name in &step.added {
        let added = window.added.entry((*name).to_string()).or_default();
        added.sum += step.metrics[name].sum;
        added.weight += step.metrics[name].weight;
    }
}

/// Builds a line about training steps; `items` is the number of items seen so far.
pub fn train(report: &Report, items: u64) -> Value {
    let mut line = json!({
        "step": report.step,
        "split": report.split,
        "loss": report.loss,
        "lr": report.lr,
        "grad_norm": report.grad_norm,
        "items": items,
        "items_per_s": report.items_per_s,
        "elapsed_s": report.elapsed_s,
    });
    for (name, mean) in &report.metrics {
        line[name] = (*mean).into();
    }
    if let Some(memory) = machine::resident_mb() {
        line["memory_mb"] = memory.into();
    }
    line
}

/// Builds a line about an evaluation. If only a part of the split was read, the line says so; if all of it was, the
/// line also has the scores of the part that other evaluations read, for comparison with them.
pub fn valid(report: &Report, of_part: Option<&Scores>) -> Value {
    let mut line = Map::new();
    line.insert("step".into(), report.step.into());
    line.insert("split".into(), report.split.into());
    line.insert("loss".into(), report.loss.into());
    for (name, value) in &report.metrics {
        line.insert(name.clone(), (*value).into());
    }
    if let Some(part) = &report.part {
        line.insert("part".into(), part.as_str().into());
    }
    if let Some(scores) = of_part {
        let mut part = Map::new();
        part.insert("loss".into(), scores.loss.into());
        for (name, value) in &scores.metrics {
            part.insert(name.clone(), (*value).into());
        }
        line.insert("of_part".into(), part.into());
    }
    line.insert("elapsed_s".into(), report.elapsed_s.into());
    line.into()
}

/// Builds the last line of a run that diverged. It lies beyond the journal length recorded in the checkpoint, so that a
/// run resumed with other settings does not keep it.
pub fn diverged(step: u64, samples: &[u64]) -> Value {
    json!({ "step": step, "split": "train", "loss": null, "diverged": true, "samples": samples })
}

/// Builds a line that says in words what changed after a step.
pub fn note(step: u64, text: &str) -> Value {
    json!({ "step": step, "split": "note", "note": text })
}

/// Builds a line about a skipped step.
pub fn skipped(step: u64, loss: f64, samples: &[u64]) -> Value {
    json!({ "step": step, "split": "train", "loss": loss, "skipped": true, "samples": samples })
}
