//! A run that begins from another one: its weights, and its tokenizer when the experiment has none of its own.

use super::open::{self, Which};
use super::{Experiment, assemble};
use crate::data::{Data, Places, Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::task::Objective;
use crate::tokenizer::Tokenizer;
use crate::train::start::Transferred;
use crate::train::{parameters, run_dir};
use burn::tensor::TensorData;
use std::path::{Path, PathBuf};

/// The paths of what is made of tokens: a row or a column for each.
const TABLE: &str = "model.embedding.weight";
const SOURCE_TABLE: &str = "model.source_embedding.weight";
const HEAD: &str = "model.head.";

/// The folder of the run that `[init]` names.
///
/// # Errors
/// No run there.
pub fn folder(experiment: &Experiment, places: &Places) -> Result<Option<PathBuf>> {
    let Some(from) = &experiment.init.from else {
        return Ok(None);
    };
    let folder = places.anchored(from);
    run_dir::require_run(&folder).map_err(|error| {
        Error::usage(format!(
            "[init] from = {from:?}: {error}; train that run first"
        ))
    })?;
    Ok(Some(folder))
}

/// The tokenizers that data is read with: those of the other run when the experiment names none.
///
/// # Errors
/// No run where `[init]` says, or a damaged tokenizer of it.
pub fn tokenizers(experiment: &Experiment, places: &Places) -> Result<Tokenizers> {
    match folder(experiment, places)? {
        Some(folder) if experiment.tokenizer.is_none() => open::tokenizers(&folder),
        Some(_) | None => Ok(Tokenizers::default()),
    }
}

/// An error when rows of tables are to be taken that belong to other tokens: the vocabulary is not the other run's.
fn same_vocabulary(
    experiment: &Experiment,
    folder: &Path,
    own: &Tokenizers,
    model: &Objective,
) -> Result<()> {
    let theirs = open::tokenizers(folder)?;
    let print = |t: &Option<Tokenizer>| t.as_ref().map(Tokenizer::fingerprint);
    let [reads, writes] = [
        (print(&theirs.text), print(&own.text)),
        (
            theirs.of_targets().map(Tokenizer::fingerprint),
            own.of_targets().map(Tokenizer::fingerprint),
        ),
    ]
    .map(|(theirs, own)| theirs.is_some() && theirs != own);
    let all = parameters::with_state(model);
    let two = all.iter().any(|p| p.path.starts_with(SOURCE_TABLE));
    let words = model.networks().masked_lm.is_some();
    let foreign = all.iter().map(|p| p.path.as_str()).filter(|path| {
        let of_source = path.starts_with(SOURCE_TABLE) || !two && path.starts_with(TABLE);
        let of_target = path.starts_with(TABLE)
            || path.starts_with(HEAD)
            || words && (*path == "head.bias" || path.starts_with("head.product"));
        reads && of_source || writes && of_target
    });
    let foreign = experiment.init.taken(foreign)?;
    if foreign.is_empty() {
        return Ok(());
    }
    let anew: Vec<String> = foreign.iter().map(|path| format!("{path:?}")).collect();
    Err(Error::usage(format!(
        "[init] the other run has another vocabulary, so that its embeddings belong to other tokens; leave [tokenizer] \
         out to take that of the run, or let what is made of tokens begin anew: add {} to new",
        anew.join(", ")
    )))
}

/// The model with the other run's weights; what became of each parameter, when there is another run.
///
/// # Errors
/// A checkpoint that is missing or damaged; another vocabulary, and tables of tokens that do not begin anew; every
/// parameter that does not fit without being asked for.
pub fn weights(
    experiment: &Experiment,
    places: &Places,
    data: &Data,
    model: Objective,
) -> Result<(Objective, Option<Transferred>)> {
    let Some(folder) = folder(experiment, places)? else {
        return Ok((model, None));
    };
    same_vocabulary(experiment, &folder, &data.tokenizers, &model)?;
    let shape = &data.shape;
    let which = experiment.init.checkpoint.as_deref().unwrap_or("best");
    let which: Which = which
        .parse()
        .map_err(|rule| Error::usage(format!("[init] checkpoint = {which:?} is none; {rule}")))?;
    if let Which::Average(_) = which {
        return Err(Error::usage(
            "[init] checkpoint: a run begins from one checkpoint: best, latest or the number of a step",
        ));
    }
    let checkpoint = open::chosen(&folder, which).map_err(as_key)?;
    let file = checkpoint.evaluated_weights();
    let theirs = open::shape(&folder)?;
    let resample = |data: &TensorData, wanted: &[usize]| {
        assemble::resampled(experiment, [theirs.image, shape.image], data, wanted)
    };
    let grid = |shape: &Shape| assemble::grid(experiment, shape.image);
    let moved = grid(&theirs) != grid(shape);
    let (model, done) = experiment.init.transfer(model, &file, &resample, moved)?;
    // A frozen parameter stays frozen with its new values.
    Ok((experiment.init.frozen(model)?, Some(done)))
}

/// The remedy of an error about a checkpoint as a key, where commands have a flag.
fn as_key(error: Error) -> Error {
    let text = error.to_string();
    match text.split_once("--checkpoint ") {
        Some((before, step)) => {
            Error::usage(format!("[init] {before}[init] checkpoint = \"{step}\""))
        }
        None => error,
    }
}

/// A table of positions `[from, d]` with another number of rows, each between its two nearest ones.
pub(super) fn stretched(table: &[f32], from: usize, to: usize, d: usize) -> Vec<f32> {
    let place = |row: usize| match to {
        0 | 1 => 0.0,
        _ => row as f64 * (from - 1) as f64 / (to - 1) as f64,
    };
    (0..to)
        .flat_map(|row| {
            let at = place(row);
            let below = (at as usize).min(from - 1);
            let above = (below + 1).min(from - 1);
            let share = (at - below as f64) as f32;
            (0..d).map(move |i| {
                let (x, y) = (table[below * d + i], table[above * d + i]);
                x + share * (y - x)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::experiment::transfer::stretched;

    #[test]
    fn a_stretched_table_keeps_its_ends() {
        let table = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(stretched(&table, 3, 3, 2), table);
        let longer = stretched(&table, 3, 5, 2);
        assert_eq!(longer, [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0]);
        assert_eq!(stretched(&table, 3, 1, 2), [0.0, 1.0]);
    }
}
