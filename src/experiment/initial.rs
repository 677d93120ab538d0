//! `init.json` of a run: the checkpoints that its weights were initialised from. A trained run no longer needs it; comparisons
//! use it to ask whether runs began from the same weights.

use super::run_contents::{self, CheckpointChoice};
use super::{Experiment, transfer};
use crate::data::SearchPath;
use crate::error::{Error, Result};
use crate::report::read::sweep::seed_folder;
use crate::train::checkpoint::Checkpoint;
use crate::train::transfer::{INIT, InitialCheckpoint, InitialRun};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Cache of step and SHA-256 of checkpoints, by run folder and requested checkpoint.
pub type CheckpointCache = BTreeMap<(PathBuf, String), (u64, String)>;

/// Reads the checkpoints that the run in a folder was initialised from, with absolute paths. Empty for a randomly initialised
/// run or one of an earlier version.
///
/// # Errors
/// If the file is damaged or cannot be read.
pub fn read(folder: &Path) -> Result<Vec<InitialCheckpoint>> {
    let path = folder.join(INIT);
    let mut all: Vec<InitialCheckpoint> = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))?,
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io("read", &path)(e)),
    };
    let places = SearchPath::of_run(folder);
    for one in &mut all {
        let whole = places.anchored(Path::new(&one.run));
        one.run = whole.display().to_string();
    }
    Ok(all)
}

/// Returns the content of `init.json` for a run of the experiment in the folder `root`. Paths that are relative in the
/// experiment are made relative to `root`, as in `resolved.toml`.
///
/// # Errors
/// Only if serialisation fails, which no weights can cause.
pub fn init_json(
    all: &[InitialCheckpoint],
    experiment: &Experiment,
    places: &SearchPath,
    root: &Path,
) -> Result<Vec<u8>> {
    let beginnings = experiment.init.initial_runs();
    let mut all = all.to_vec();
    for one in &mut all {
        let named = beginnings.iter().find(|named| named.key == one.key);
        let Some(from) = named.map(|named| &named.from) else {
            continue;
        };
        let run = match one.of_seed {
            true => from.join(seed_folder(experiment.seed)),
            false => from.clone(),
        };
        one.run = places.portable(&run, root).display().to_string();
    }
    let text = serde_json::to_string_pretty(&all).map_err(|e| {
        Error::run(format!(
            "cannot serialise the record of the initial weights: {e}"
        ))
    })?;
    Ok(format!("{text}\n").into_bytes())
}

/// Returns the checkpoints that a run of the experiment would be initialised from now; `known` caches those read before.
///
/// # Errors
/// If there is no such run or checkpoint; if the run's files were changed or the checkpoint is damaged.
pub fn current_checkpoints(
    experiment: &Experiment,
    places: &SearchPath,
    known: &mut CheckpointCache,
) -> Result<Vec<InitialCheckpoint>> {
    let mut all = Vec::new();
    for beginning in experiment.init.initial_runs() {
        let folder = transfer::folder(&beginning, experiment.seed, places)?;
        let place = (folder.clone(), requested_checkpoint(&beginning).to_string());
        let found = match known.get(&place) {
            Some(found) => found.clone(),
            None => {
                let found = step_and_checksum(&checkpoint(&beginning, &folder)?)?;
                known.insert(place, found.clone());
                found
            }
        };
        all.push(make_record(&beginning, &folder, experiment.seed, found));
    }
    Ok(all)
}

/// Opens the checkpoint that a run is initialised from.
///
/// # Errors
/// If `checkpoint` is not a valid choice or names a mean; if there is no such checkpoint or it is damaged.
pub(super) fn checkpoint(beginning: &InitialRun, folder: &Path) -> Result<Checkpoint> {
    let (table, which) = (transfer::table(beginning), requested_checkpoint(beginning));
    let which: CheckpointChoice = which.parse().map_err(|rule| {
        Error::usage(format!(
            "{table} checkpoint = {which:?} is not a checkpoint; {rule}"
        ))
    })?;
    if let CheckpointChoice::Average(_) = which {
        return Err(Error::usage(format!(
            "{table} checkpoint must be best, latest or the number of a step: a run begins from one checkpoint"
        )));
    }
    let chosen = run_contents::find_checkpoint(folder, which);
    chosen.map_err(|error| transfer::as_key_of(&table, "checkpoint", error))
}

/// Returns the record that a run keeps of the checkpoint it is initialised from.
///
/// # Errors
/// If the checkpoint's manifest does not name its weights.
pub(super) fn checkpoint_record(
    beginning: &InitialRun,
    folder: &Path,
    seed: u64,
    checkpoint: &Checkpoint,
) -> Result<InitialCheckpoint> {
    Ok(make_record(
        beginning,
        folder,
        seed,
        step_and_checksum(checkpoint)?,
    ))
}

fn requested_checkpoint(beginning: &InitialRun) -> &str {
    beginning.rules.checkpoint.as_deref().unwrap_or("best")
}

fn step_and_checksum(checkpoint: &Checkpoint) -> Result<(u64, String)> {
    let sum = checkpoint.evaluated_weights_sha256()?;
    Ok((checkpoint.state().step, sum.to_string()))
}

fn make_record(
    beginning: &InitialRun,
    folder: &Path,
    seed: u64,
    (step, sha256): (u64, String),
) -> InitialCheckpoint {
    let own = seed_folder(seed);
    let whole = folder.canonicalize();
    InitialCheckpoint {
        key: beginning.key.to_string(),
        run: whole.as_deref().unwrap_or(folder).display().to_string(),
        of_seed: folder.ends_with(&own) && !beginning.from.ends_with(&own),
        checkpoint: requested_checkpoint(beginning).to_string(),
        step,
        sha256,
        merged: false,
    }
}
