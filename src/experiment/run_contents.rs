//! Reads the content of a run's folder: checkpoints by name, tokenizers, the shape of the data, scores.

use super::{Experiment, file};
use crate::data::{Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::files;
use crate::tokenizer::{ChatTemplate, TokenFraming, Tokenizer};
use crate::train::checkpoint::{self, Checkpoint, Search};
use crate::train::evaluation::Scores;
use crate::train::run_dir;
use serde_json::{Map, Value};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

/// Selects a checkpoint of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointChoice {
    /// The checkpoint of the best evaluation; the newest complete one if no evaluation was made.
    #[default]
    Best,
    /// The newest complete checkpoint.
    Latest,
    /// The checkpoint of a step.
    Step(u64),
    /// The mean of the weights of the newest `n` checkpoints (Vaswani et al. 2017, section 6.1).
    Average(usize),
}

impl FromStr for CheckpointChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "best" => Ok(Self::Best),
            "latest" => Ok(Self::Latest),
            number => match number.strip_prefix("average:") {
                Some(count) => count.parse().ok().filter(|n| *n > 0).map(Self::Average),
                None => number.parse().ok().map(Self::Step),
            }
            .ok_or_else(|| {
                "give `best`, `latest`, the number of a step, or `average:5` for the mean of the newest 5".into()
            }),
        }
    }
}

/// Returns the checkpoint that `which` selects; for an average, the newest of its checkpoints.
///
/// # Errors
/// If there is no such checkpoint or it is damaged; the message names the newest complete one.
pub fn find_checkpoint(folder: &Path, which: CheckpointChoice) -> Result<Checkpoint> {
    let mut all = find_checkpoints(folder, which)?;
    all.pop().ok_or_else(|| no_checkpoint(folder))
}

/// Returns the checkpoints that `which` selects, by rising step: one, or those of an average.
///
/// # Errors
/// Those of [`find_checkpoint`].
pub fn find_checkpoints(folder: &Path, which: CheckpointChoice) -> Result<Vec<Checkpoint>> {
    let one = match which {
        CheckpointChoice::Best => best(folder),
        CheckpointChoice::Latest => newest(folder),
        CheckpointChoice::Step(step) => checkpoint_of_step(folder, step),
        CheckpointChoice::Average(count) => return newest_scheduled(folder, count),
    };
    one.map(|checkpoint| vec![checkpoint])
}

fn no_checkpoint(folder: &Path) -> Error {
    Error::run(format!("{} has no checkpoint yet", folder.display()))
}

fn checkpoint_of_step(folder: &Path, step: u64) -> Result<Checkpoint> {
    let place = run_dir::checkpoints_folder(folder).join(checkpoint::folder_name(step));
    if place.is_dir() {
        let opened = Checkpoint::open(place);
        return opened.map_err(|error| suggest_newest(error, &checkpoint::newest_complete(folder)));
    }
    let there: Vec<String> = checkpoint::steps(folder)
        .iter()
        .map(u64::to_string)
        .collect();
    Err(Error::usage(format!(
        "{} has no checkpoint of step {step}; available steps: {}",
        folder.display(),
        there.join(", ")
    )))
}

/// The newest `count` regularly scheduled checkpoints, each checked for completeness. Two kinds are left out because their
/// distance to the others is irregular: those saved at an interruption, and one that is kept only because it is the best.
fn newest_scheduled(folder: &Path, count: usize) -> Result<Vec<Checkpoint>> {
    let mut steps = checkpoint::steps(folder);
    let all = steps.len();
    steps.retain(|step| !checkpoint::is_interim(folder, *step));
    let due = steps.len();
    if is_kept_as_best(folder, &steps)? {
        steps.remove(0);
    }
    if steps.len() < count {
        let beside = match (due > steps.len(), all > due) {
            (false, false) => "",
            (false, true) => " besides one of an interruption",
            (true, false) => " besides the best one",
            (true, true) => " besides the best one and one of an interruption",
        };
        return Err(Error::usage(format!(
            "{} has {} checkpoints{beside}: too few for a mean of {count}; train with [train] keep_last = {count}",
            folder.display(),
            steps.len()
        )));
    }
    let newest = steps[steps.len() - count..].iter();
    newest
        .map(|step| {
            let place = run_dir::checkpoints_folder(folder).join(checkpoint::folder_name(*step));
            Checkpoint::open(place)
        })
        .collect()
}

/// Whether the oldest scheduled checkpoint is kept only because it is the best, beside the newest `keep_last`.
fn is_kept_as_best(folder: &Path, due: &[u64]) -> Result<bool> {
    let Some(&oldest) = due.first() else {
        return Ok(false);
    };
    let best = folder.join(checkpoint::BEST);
    let is_best = match best.read_link() {
        Ok(target) => target.file_name() == Some(checkpoint::folder_name(oldest).as_ref()),
        // In a copy of the run, `best` may be a folder instead of a link.
        Err(_) => Checkpoint::open(best).is_ok_and(|best| best.state().step == oldest),
    };
    if !is_best {
        return Ok(false);
    }
    let loaded = file::load(&folder.join(run_dir::RESOLVED), &[])?;
    Ok(due.len() > loaded.experiment.train.keep_last.max(1))
}

fn best(folder: &Path) -> Result<Checkpoint> {
    let best = folder.join(checkpoint::BEST);
    // A dangling link is damage, not a run without evaluations.
    if best.symlink_metadata().is_err() {
        return newest(folder);
    }
    // Only the name of the link's target counts, whichever folder it is in; in a copy of the run, `best` may be a folder
    // instead of a link.
    let target = best.read_link();
    let inside = target
        .ok()
        .and_then(|target| Some(run_dir::checkpoints_folder(folder).join(target.file_name()?)));
    let opened = Checkpoint::open(inside.unwrap_or(best));
    opened.map_err(|error| suggest_newest(error, &checkpoint::newest_complete(folder)))
}

/// The newest checkpoint. If it is damaged that is an error: an older one is never used silently in its place.
fn newest(folder: &Path) -> Result<Checkpoint> {
    let mut search = checkpoint::newest_complete(folder);
    if !search.refused.is_empty() {
        let refused = search.refused.swap_remove(0);
        return Err(suggest_newest(refused, &search));
    }
    search.found.ok_or_else(|| no_checkpoint(folder))
}

/// Extends the error by the newest complete checkpoint, which can be selected by its step.
fn suggest_newest(error: Error, search: &Search) -> Error {
    match &search.found {
        Some(whole) => {
            let step = whole.state().step;
            Error::run(format!(
                "{error}; the newest complete checkpoint is at step {step}: --checkpoint {step}"
            ))
        }
        None => Error::run(format!("{error}; the run has no complete checkpoint")),
    }
}

/// Adds a split's scores, made at `step`, to scores.json; several processes may do so at once.
///
/// # Errors
/// If scores.json cannot be locked, read (it is left unchanged then) or written.
pub fn write_scores(folder: &Path, split: &str, step: u64, scores: &Scores) -> Result<()> {
    // The lock is held to the end: otherwise one of two processes could overwrite the other's split.
    let _lock = run_dir::lock_scores(folder)?;
    let path = folder.join(run_dir::SCORES);
    let mut all: Map<String, Value> = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
            Error::run(format!("{} is damaged ({e}); move it away", path.display()))
        })?,
        Err(e) if e.kind() == ErrorKind::NotFound => Map::new(),
        Err(e) => return Err(Error::io("read", &path)(e)),
    };
    all.insert(split.into(), scores_json(step, scores).into());
    let text = format!("{:#}\n", Value::Object(all));
    files::write(&path, text.as_bytes())
}

/// Returns the scores of a split in scores.json if they were made at `step`.
pub fn scores_at(folder: &Path, split: &str, step: u64) -> Option<Scores> {
    let text = fs::read(folder.join(run_dir::SCORES)).ok()?;
    let all: Map<String, Value> = serde_json::from_slice(&text).ok()?;
    let found = all.get(split)?.as_object()?;
    let numbers = found
        .iter()
        .filter(|(name, _)| !["step", "loss"].contains(&name.as_str()));
    (found.get("step")?.as_u64()? == step).then_some(Scores {
        loss: found.get("loss")?.as_f64()?,
        metrics: numbers
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
            .collect(),
        confusion: None,
    })
}

/// Converts scores to one JSON object.
pub fn scores_json(step: u64, scores: &Scores) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("step".into(), step.into());
    object.insert("loss".into(), scores.loss.into());
    for (name, value) in &scores.metrics {
        object.insert(name.clone(), (*value).into());
    }
    object
}

/// Loads the tokenizers that the run has, exactly as they are stored.
///
/// # Errors
/// If a file is not a tokenizer.
pub fn tokenizers(folder: &Path) -> Result<Tokenizers> {
    let load = |name: &str| {
        let path = folder.join(name);
        path.is_file().then(|| Tokenizer::load(&path)).transpose()
    };
    Ok(Tokenizers {
        text: load(run_dir::TOKENIZER)?,
        target: load(run_dir::TARGET_TOKENIZER)?,
        chat: {
            let path = folder.join(run_dir::CHAT);
            path.is_file()
                .then(|| ChatTemplate::load(&path))
                .transpose()?
        },
    })
}

/// Loads the tokenizers of a run with the special tokens that its model read around texts, for a run that is used or that
/// another one starts or learns from.
///
/// # Errors
/// If files of the run are missing or damaged, or the vocabulary has no end token.
pub fn framed_tokenizers(folder: &Path) -> Result<Tokenizers> {
    let found = tokenizers(folder)?;
    if found.text.is_none() {
        return Ok(found);
    }
    let experiment = file::load(&folder.join(run_dir::RESOLVED), &[])?.experiment;
    with_framing(found, &experiment, &shape(folder)?)
}

/// Adjusts the tokenizers of a run to the special tokens that its model read around texts. Runs of earlier versions that became
/// text-to-text models read only the end token after a source, whatever the tokenizer of the run they began from adds.
///
/// # Errors
/// If the vocabulary has no end token.
pub fn with_framing(
    tokenizers: Tokenizers,
    experiment: &Experiment,
    shape: &Shape,
) -> Result<Tokenizers> {
    let data = &experiment.data;
    let around = data.data_set().framing(&experiment.task.view());
    if shape.framed || data.is_imported() || around != TokenFraming::End {
        return Ok(tokenizers);
    }
    let read = |tokenizer: Option<Tokenizer>| tokenizer.map(|t| t.with_framing(around)).transpose();
    Ok(Tokenizers {
        text: read(tokenizers.text)?,
        target: read(tokenizers.target)?,
        chat: tokenizers.chat,
    })
}

/// Returns an error if a tokenizer of the run has ids that exceed its model's embedding table.
///
/// # Errors
/// If there are such ids; the error names the tokenizer's file.
pub fn require_vocabulary(folder: &Path, tokenizers: &Tokenizers, shape: &Shape) -> Result<()> {
    let both = [tokenizers.text.as_ref(), tokenizers.target.as_ref()];
    match vocabulary_overflow(both, shape) {
        None => Ok(()),
        Some(VocabularyOverflow {
            name,
            max_id: last,
            vocabulary: known,
        }) => Err(Error::run(format!(
            "{} has ids up to {last}, but the run's model has {known} tokens ({}): the file belongs to another run",
            folder.join(name).display(),
            run_dir::DATA
        ))),
    }
}

/// A tokenizer with ids that exceed a model's vocabulary.
pub struct VocabularyOverflow {
    /// Name of its file in a run.
    pub name: &'static str,
    /// Largest id of the tokenizer.
    pub max_id: usize,
    /// Vocabulary size of the model.
    pub vocabulary: usize,
}

/// Returns the first of the source and target tokenizers that has more ids than a model of this shape has tokens.
pub fn vocabulary_overflow(
    [text, target]: [Option<&Tokenizer>; 2],
    shape: &Shape,
) -> Option<VocabularyOverflow> {
    let sources = shape.source_vocab_size.unwrap_or(shape.vocab_size);
    let each = [
        (run_dir::TOKENIZER, text, sources),
        (run_dir::TARGET_TOKENIZER, target, shape.vocab_size),
    ];
    each.into_iter().find_map(|(name, tokenizer, known)| {
        let last = tokenizer?.vocab_size().checked_sub(1)?;
        (last >= known).then_some(VocabularyOverflow {
            name,
            max_id: last,
            vocabulary: known,
        })
    })
}

/// Reads the shape of the data that the run's model was built for.
///
/// # Errors
/// If the file is missing or damaged.
pub fn shape(folder: &Path) -> Result<Shape> {
    let path = folder.join(run_dir::DATA);
    let text = fs::read(&path).map_err(Error::io("read", &path))?;
    serde_json::from_slice(&text)
        .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))
}
