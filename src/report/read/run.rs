//! Summary of a run folder: its settings, curves and progress. Reads `resolved.toml`, `files.json`, `init.json`,
//! `teacher.json`, `reward.json`, `metrics.jsonl`, `scores.json`, `machine.json`, the end of `samples.jsonl` and the
//! `state.json` of a checkpoint; never weights.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::changes::{self, Change};
use super::find::{locate, not_a_run};
use super::journal::{Journal, Point};
use super::origins::{self, Origin};
use super::patience;
use super::resolved;
use super::samples::samples;
use super::sweep::{EndState, Ending};
use crate::error::{Error, Result};
use crate::train::{run_dir, run_manifest};

/// The summary of a run folder.
#[derive(Clone, Debug)]
pub struct Run {
    /// Run folder, as the user named it.
    pub path: PathBuf,
    /// Name in reports: the path, or for a cell of a sweep the path within the sweep.
    pub title: String,
    /// How the run ended, as recorded by its sweep.
    pub ending: Option<Ending>,
    /// `name` of the experiment, else the folder's name.
    pub name: String,
    /// `seed` of the experiment.
    pub seed: Option<String>,
    /// All settings of `resolved.toml` by dotted key, in the file's order. A setting that changed during the run shows all its
    /// values.
    pub settings: Vec<(String, String)>,
    /// Settings and file contents that changed during the run.
    pub changes: Vec<Change>,
    /// Whether `resolved.toml` differs from the one recorded in the run's manifest.
    pub edited: bool,
    /// Inputs of the run: data files, initial weights, a teacher.
    pub origins: Vec<Origin>,
    /// Number of training steps in the experiment (`train.steps`).
    pub steps: Option<u64>,
    /// Whether the run has used up its patience (`train.patience`).
    pub out_of_patience: bool,
    /// Curves from `metrics.jsonl`.
    pub journal: Journal,
    /// Values of `scores.json` by split and metric.
    pub scores: BTreeMap<String, BTreeMap<String, f64>>,
    /// Step at which the scores of each split were computed.
    pub scored_at: BTreeMap<String, u64>,
    /// Values of `machine.json`, flattened to dotted keys.
    pub machine: BTreeMap<String, String>,
    /// Newest samples, oldest first, each as (key, text) pairs.
    pub samples: Vec<Vec<(String, String)>>,
}

impl Run {
    /// Returns the values of a metric on a split by step.
    pub fn series(&self, split: &str, metric: &str) -> &[Point] {
        self.journal.series(split, metric)
    }

    /// Returns the step from which on the loss is never finite again. If only the sweep says that the run diverged and the
    /// journal does not, the last step.
    pub fn diverged_at(&self) -> Option<u64> {
        let told = self.has_end_state(EndState::Diverged);
        self.loss_lost_at()
            .or(told.then_some(self.journal.last_step))
    }

    /// Whether the sweep records this end state.
    fn has_end_state(&self, state: EndState) -> bool {
        self.ending.as_ref().is_some_and(|e| e.state == state)
    }

    /// Whether the run ended with an error.
    pub fn has_failed(&self) -> bool {
        self.has_end_state(EndState::Failed)
    }

    /// Whether the run was stopped at a rung of successive halving.
    pub fn was_stopped_at_rung(&self) -> bool {
        self.has_end_state(EndState::Stopped)
    }

    fn loss_lost_at(&self) -> Option<u64> {
        ["train", "valid"]
            .iter()
            .filter_map(|split| {
                let losses = self.series(split, "loss");
                let sound = losses
                    .iter()
                    .rposition(|p| p.value.is_finite())
                    .map_or(0, |i| i + 1);
                losses.get(sound).map(|p| p.step)
            })
            .min()
    }

    /// Whether early stopping ended the run: its patience (`train.patience`) is used up and its final scores are written.
    pub fn has_stopped_early(&self) -> bool {
        let short = self.steps.is_some_and(|of| self.journal.last_step < of);
        self.out_of_patience && short && self.scores.contains_key("valid")
    }

    /// Describes how far the run got: `done`, `stopped early at step 700`, `step 200 of 1000`, `diverged at step 300`,
    /// `failed at step 100: reason`; with `, never evaluated` appended if that is so.
    pub fn state(&self) -> String {
        let step = self.journal.last_step;
        if let Some(ending) = self.ending.as_ref().filter(|_| self.has_failed()) {
            return format!("failed at step {step}: {}", ending.reason);
        }
        let mut state = match (self.diverged_at(), self.steps) {
            (Some(at), _) => format!("diverged at step {at}"),
            (None, Some(_)) if self.has_stopped_early() => format!("stopped early at step {step}"),
            (None, Some(of)) if self.was_stopped_at_rung() => {
                format!("stopped at step {step} of {of}")
            }
            (None, Some(of)) if step < of => format!("step {step} of {of}"),
            (None, Some(_)) => "done".into(),
            (None, None) => format!("step {step}"),
        };
        if self.journal.metrics("valid").next().is_none() && !self.scores.contains_key("valid") {
            state.push_str(", never evaluated");
        }
        state
    }

    /// Whether the run finished with a finite loss.
    pub fn is_done(&self) -> bool {
        let whole = self.steps.is_none_or(|of| self.journal.last_step >= of);
        let ended_ill =
            self.diverged_at().is_some() || self.has_failed() || self.was_stopped_at_rung();
        !ended_ill && (whole || self.has_stopped_early())
    }

    /// Returns the items (tokens or images) per second: the median over the journal, which a pause does not shift.
    pub fn items_per_s(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self
            .series("train", "items_per_s")
            .iter()
            .map(|p| p.value)
            .collect();
        rates.retain(|r| r.is_finite());
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }

    /// Returns the number of items (tokens or images) that the run has seen.
    pub fn items(&self) -> Option<f64> {
        let last = self.series("train", "items").last()?;
        Some(last.value).filter(|n| n.is_finite())
    }

    /// Returns the wall time of the run in seconds.
    pub fn elapsed_s(&self) -> Option<f64> {
        ["train", "valid"]
            .iter()
            .filter_map(|split| self.series(split, "elapsed_s").last())
            .map(|p| p.value)
            .filter(|s| s.is_finite())
            .reduce(f64::max)
    }
}

/// Reads all run folders in parallel and returns them in the order given; every folder that is not a run is a fault.
/// A bare name that is not a folder here is looked for in `checkpoints/`.
///
/// # Errors
/// If folders hold no run (all of them are listed), if two paths are the same folder, or if files of a run cannot be read.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Run>> {
    require_different(paths)?;
    let read: Vec<Result<Run>> = paths.par_iter().map(|path| read(path)).collect();
    let (mut runs, mut faults) = (Vec::new(), Vec::new());
    for result in read {
        match result {
            Ok(run) => runs.push(run),
            Err(Error::Invalid(more)) => faults.extend(more),
            Err(other) => return Err(other),
        }
    }
    if faults.is_empty() {
        Ok(runs)
    } else {
        Err(Error::Invalid(faults))
    }
}

/// Returns an error if two of the paths are the same folder, whose results would count twice.
fn require_different(paths: &[PathBuf]) -> Result<()> {
    let mut seen = BTreeMap::new();
    for path in paths {
        let Ok(folder) = locate(path).canonicalize() else {
            continue;
        };
        if let Some(before) = seen.insert(folder, path) {
            return Err(Error::usage(format!(
                "{} and {} are the same run: name it once",
                before.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// Reads one run folder.
///
/// # Errors
/// If the folder holds no run (with the nearest one that does), or if files of the run cannot be read.
pub fn read(path: &Path) -> Result<Run> {
    let folder = locate(path);
    if !resolved::exists_in(&folder) {
        return Err(Error::Invalid(vec![not_a_run(path, &folder)]));
    }
    crate::files::require_regular_in(&folder)?;
    let table = resolved::read(&folder)?;
    let mut changes = changes::read(&folder, &table);
    let mut settings = Vec::new();
    resolved::flatten("", &toml::Value::Table(table), &mut settings);
    let origins = origins::read(&folder, &settings)?;
    origins::identify_by_content(&origins, &mut settings);
    changes.extend(origins::changes(&folder, &origins));
    changes.sort_by_key(|change| change.step);
    let setting = |key: &str| {
        settings
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.clone())
    };
    let all_scores = optional_json(&folder.join(run_dir::SCORES))?;
    let (name, seed, steps) = (setting("name"), setting("seed"), setting("train.steps"));
    let patience = setting("train.patience").and_then(|patience| patience.parse().ok());
    for key in changes::keys(&changes) {
        let values = changes::values(&changes::changes_of_key(&changes, key));
        match settings.iter_mut().find(|(k, _)| k == key) {
            Some((_, value)) => *value = values,
            None => settings.push((key.to_string(), values)),
        }
    }
    Ok(Run {
        name: name.unwrap_or_else(|| resolved::name_of(&folder)),
        seed,
        steps: steps.and_then(|s| s.parse().ok()),
        out_of_patience: patience.is_some_and(|patience| patience::is_used_up(&folder, patience)),
        journal: Journal::parse(&optional_text(&folder.join("metrics.jsonl"))?),
        scores: scores(&all_scores),
        scored_at: scored_at(&all_scores),
        machine: machine(&folder.join("machine.json"))?,
        samples: samples(&folder.join("samples.jsonl"))?,
        edited: run_manifest::is_changed(&folder, run_dir::RESOLVED),
        settings,
        changes,
        origins,
        title: folder.display().to_string(),
        ending: None,
        path: folder,
    })
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Returns the text of a file; empty if it does not exist.
fn optional_text(path: &Path) -> Result<String> {
    if path.exists() {
        read_text(path)
    } else {
        Ok(String::new())
    }
}

/// Returns the JSON of a file; null if it does not exist or is only partly written.
pub(super) fn optional_json(path: &Path) -> Result<serde_json::Value> {
    Ok(serde_json::from_str(&optional_text(path)?).unwrap_or_default())
}

fn scored_at(json: &serde_json::Value) -> BTreeMap<String, u64> {
    let splits = json.as_object().into_iter().flatten();
    splits
        .filter_map(|(split, scores)| Some((split.clone(), scores.get("step")?.as_u64()?)))
        .collect()
}

fn scores(json: &serde_json::Value) -> BTreeMap<String, BTreeMap<String, f64>> {
    let splits = json.as_object().into_iter().flatten();
    let numbers = |v: &serde_json::Value| -> BTreeMap<String, f64> {
        let metrics = v.as_object().into_iter().flatten();
        metrics
            .filter(|(k, _)| *k != "step")
            .filter_map(|(k, v)| Some((k.clone(), v.as_f64()?)))
            .collect()
    };
    splits
        .filter(|(_, v)| v.is_object())
        .map(|(k, v)| (k.clone(), numbers(v)))
        .collect()
}

fn machine(path: &Path) -> Result<BTreeMap<String, String>> {
    fn walk(prefix: &str, value: &serde_json::Value, out: &mut BTreeMap<String, String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (k, v) in map {
                    walk(
                        &if prefix.is_empty() {
                            k.clone()
                        } else {
                            format!("{prefix}.{k}")
                        },
                        v,
                        out,
                    );
                }
            }
            serde_json::Value::String(text) => drop(out.insert(prefix.to_string(), text.clone())),
            serde_json::Value::Null => {}
            other => drop(out.insert(prefix.to_string(), other.to_string())),
        }
    }
    let mut flat = BTreeMap::new();
    walk("", &optional_json(path)?, &mut flat);
    Ok(flat)
}
