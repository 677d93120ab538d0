//! The row of a sweep: its arms and cells, each cell with its run if it was started.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::row::shortened;
use crate::report::read::listing::RunListing;
use crate::report::read::sweep::{EndState, SweepFolder};
use crate::train::metrics::higher_is_better;

/// Maximum number of cells shown per sweep.
const MOST: usize = 5000;

/// Returns the row of the sweep in a folder; `names` are the names of runs by their folders.
pub fn row(
    id: &str,
    folder: &Path,
    names: &HashMap<PathBuf, String>,
    runs: &HashMap<PathBuf, RunListing>,
) -> Value {
    let sweep = match SweepFolder::read(folder) {
        Ok(sweep) => sweep,
        Err(error) => {
            return json!({ "id": id, "name": id, "error": shortened(&error.to_string()), "arms": [] });
        }
    };
    let plan = &sweep.plan;
    let metric = plan.metric.strip_prefix("valid_").unwrap_or(&plan.metric);
    let mut left = MOST;
    let mut arms = Vec::new();
    for arm in &plan.arms {
        if left < plan.seeds.len() {
            break;
        }
        left -= plan.seeds.len();
        let cells = plan.seeds.iter().map(|seed| {
            let path = sweep.run(arm, *seed);
            let ending = sweep.ending(arm, *seed).ok().flatten();
            let state = match (runs.get(&path), &ending) {
                (Some(run), _) => run.state(),
                (None, Some(ending)) => match ending.state {
                    EndState::Done => "done",
                    EndState::Diverged => "diverged",
                    EndState::Failed => "failed",
                    EndState::Stopped => "stopped at a rung",
                },
                (None, None) => "missing",
            };
            let best = runs.get(&path).and_then(|run| run.progress.best(metric));
            json!({
                "seed": seed,
                "run": names.get(&path),
                "state": state,
                "reason": ending.map(|e| shortened(&e.reason)),
                "best": best.map(|best| best.value),
            })
        });
        arms.push(json!({
            "name": shortened(&arm.name),
            "settings": arm.settings,
            "steps": arm.steps,
            "params": arm.params,
            "cells": cells.collect::<Vec<Value>>(),
        }));
    }
    json!({
        "id": id,
        "name": shortened(&plan.name),
        "metric": plan.metric,
        "higher": higher_is_better(&plan.metric),
        "baseline": plan.baseline,
        "axes": plan.axes,
        "seeds": plan.seeds,
        "left_out": plan.arms.len() - arms.len(),
        "arms": arms,
    })
}
