//! Several processes as one run: checks before the first step that they agree, and lets the first rank work before the others.

use crate::collective::Ranks;
use crate::data::{Data, Tokenizers};
use crate::digest::{self, hex};
use crate::error::{Error, Result};
use crate::experiment::{
    Experiment, LoadedExperiment, assemble, data_files, epochs, resolved_toml,
};
use crate::nn::role::ParameterKind;
use crate::task::{Objective, is_copied_to_average};
use crate::tokenizer::{ChatTemplate, Tokenizer};
use crate::train::checkpoint::weights_hash;
use crate::train::job::Outcome;
use crate::train::run_dir;
use crate::train::{self, TrainConfig, parameters};
use std::fs::File;
use std::path::Path;

/// Checks that this number of ranks can share the micro-batches of a step.
///
/// # Errors
/// If it cannot; the error names the nearest number that can.
pub(super) fn require_shares(config: &TrainConfig, ranks: &Ranks) -> Result<()> {
    match train::ranks::fault(ranks.count(), config) {
        Some(fault) if ranks.is_distributed() => Err(Error::usage(fault)),
        Some(_) | None => Ok(()),
    }
}

/// Checks that all ranks run the same program, have the same experiment, and see the same run folder.
///
/// # Errors
/// If they differ; the error names the first rank that does.
pub(super) fn require_same_setup(
    ranks: &Ranks,
    experiment: &Experiment,
    folder: &Path,
) -> Result<()> {
    if !ranks.is_distributed() {
        return Ok(());
    }
    let program = std::env::current_exe().and_then(|path| {
        let (sum, _) = digest::sha256(File::open(path)?)?;
        Ok(hex(&sum))
    });
    let program = program.map_err(|e| Error::run(format!("cannot read this program: {e}")))?;
    require_same(ranks, "runs a different program", program.as_bytes())?;
    let resolved = resolved_toml(experiment);
    require_same(ranks, "has a different experiment", resolved.as_bytes())?;
    let is_run = [u8::from(run_dir::is_run(folder))];
    require_same(ranks, "sees a different run folder", &is_run)
}

/// Checks that all ranks have read the same data and begin with the same weights.
///
/// # Errors
/// If they differ; the error names the first rank that does. If the model has a batch norm, whose statistics ranks do not
/// share.
pub(super) fn require_same_start(ranks: &Ranks, data: &Data, model: &Objective) -> Result<()> {
    if !ranks.is_distributed() {
        return Ok(());
    }
    let state = parameters::list_with_state(model)
        .into_iter()
        // The centre of self-distillation is computed over all ranks.
        .filter(|parameter| !is_copied_to_average(&parameter.path))
        .find(|parameter| parameter.role.kind == Some(ParameterKind::State));
    if let Some(state) = state {
        return Err(Error::usage(format!(
            "batch norm ({}) keeps running statistics of the batches of one process, which {} ranks would not share; train with \
             one process, or choose another norm",
            state.path,
            ranks.count()
        )));
    }
    let valid = data.valid.as_ref().map_or(0, |valid| valid.len());
    let shape = serde_json::to_string(&data.shape)
        .map_err(|e| Error::run(format!("cannot describe the data: {e}")))?;
    let shape = format!("{} {valid} {shape}", data.train.len());
    require_same(ranks, "has read different data", shape.as_bytes())?;
    let weights = weights_hash(model);
    require_same(ranks, "begins with different weights", weights.as_bytes())
}

fn require_same(ranks: &Ranks, does: &str, own: &[u8]) -> Result<()> {
    let (sum, _) = digest::sha256(own).map_err(|e| Error::run(e.to_string()))?;
    let all = ranks.all_gather(&sum)?;
    match all.iter().position(|sum| *sum != all[0]) {
        None => Ok(()),
        Some(rank) => Err(Error::usage(format!(
            "rank {rank} {does} than rank 0; all ranks of a run need the same program, experiment, files and run folder"
        ))),
    }
}

/// Does work on the first rank before the others, which then find what it has written.
///
/// # Errors
/// The errors of the work, on any rank.
pub(super) fn in_turn<T>(ranks: &Ranks, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if ranks.is_first() {
        let done = work()?;
        ranks.wait()?;
        return Ok(done);
    }
    ranks.wait()?;
    work()
}

/// Returns the outcome of a run that is over according to the first rank. The other ranks look after it has finished.
///
/// # Errors
/// The errors of `look`; if a rank disagrees.
pub(super) fn outcome_of_first(
    ranks: &Ranks,
    look: impl Fn() -> Result<Option<Outcome>>,
) -> Result<Option<Outcome>> {
    let mut found = None;
    let over = ranks.broadcast(|| {
        found = look()?;
        Ok(vec![u8::from(found.is_some())])
    })?;
    if ranks.is_first() || over != [1] {
        return Ok(found);
    }
    match look()? {
        Some(outcome) => Ok(Some(outcome)),
        None => Err(Error::run(
            "this rank sees a different run folder than rank 0",
        )),
    }
}

/// Reads the data of a new run. The first rank reads it before the others and creates tokenizers and caches; the others use its
/// tokenizers.
///
/// # Errors
/// As [`assemble::training_data`], on any rank; if a rank has other files.
pub(super) fn training_data(ranks: &Ranks, loaded: &LoadedExperiment) -> Result<Data> {
    if !ranks.is_distributed() {
        return assemble::training_data(loaded);
    }
    let (experiment, places) = (&loaded.experiment, &loaded.places());
    let first = match ranks.is_first() {
        true => Some(assemble::training_data(loaded)?),
        false => None,
    };
    let own = first.as_ref().map(|data| &data.tokenizers);
    let read = |of: fn(&Tokenizers) -> &Option<Tokenizer>, name: &str| {
        let json = || {
            let tokenizer = own.and_then(|all| of(all).as_ref());
            Ok(tokenizer.map_or_else(Vec::new, |t| t.json().to_vec()))
        };
        let json = ranks.broadcast(json)?;
        (!json.is_empty())
            .then(|| Tokenizer::from_json(json, Path::new(name)))
            .transpose()
    };
    let tokenizers = Tokenizers {
        text: read(|all| &all.text, run_dir::TOKENIZER)?,
        target: read(|all| &all.target, run_dir::TARGET_TOKENIZER)?,
        chat: {
            let template = own.and_then(|all| all.chat.as_ref());
            let json = ranks.broadcast(|| template.map_or(Ok(Vec::new()), ChatTemplate::json))?;
            (!json.is_empty())
                .then(|| ChatTemplate::from_json(&json, Path::new(run_dir::CHAT)))
                .transpose()?
        },
    };
    let sums = data_files::checksums(experiment, places)?;
    require_same(ranks, "has different data files", sums.as_bytes())?;
    match first {
        Some(data) => Ok(data),
        None => assemble::data(experiment, places, &tokenizers, None),
    }
}

/// Returns the experiment with its epochs converted to steps; none if it has no epochs.
///
/// # Errors
/// As [`training_data`] and [`epochs::settled`].
pub(super) fn with_steps(
    ranks: &Ranks,
    loaded: &LoadedExperiment,
) -> Result<Option<LoadedExperiment>> {
    match loaded.experiment.train.epochs {
        None => Ok(None),
        Some(_) => epochs::with_steps(loaded, &training_data(ranks, loaded)?),
    }
}
