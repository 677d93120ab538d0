//! A run that is there: opened for evaluation and generation, its scores written down.

use super::{Experiment, assemble, run};
use crate::data::{Places, Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::files;
use crate::task::Objective;
use crate::task::TaskConfig;
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint::mean::mean;
use crate::train::checkpoint::{self, Checkpoint, Search, weights};
use crate::train::evaluation::Scores;
use crate::train::run_dir;
use burn::module::Module;
use serde_json::{Map, Value};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

/// A run that is opened for use: evaluation, generation.
pub struct Opened {
    /// What was trained.
    pub experiment: Experiment,
    /// Weights in evaluation mode.
    pub model: Objective,
    /// Where its data is looked for.
    pub places: Places,
    /// The run's tokenizers.
    pub tokenizers: Tokenizers,
    /// What the model knows of its data.
    pub shape: Shape,
    /// The checkpoint's step.
    pub step: u64,
}

/// A checkpoint of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// That of the best evaluation; the newest whole one when no evaluation was made.
    #[default]
    Best,
    /// The newest whole one.
    Latest,
    /// That of a step.
    Step(u64),
    /// The mean of the weights of the newest ones, so many of them (Vaswani et al. 2017, section 6.1).
    Average(usize),
}

impl FromStr for Which {
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

/// Opens a checkpoint of a run for use.
///
/// # Errors
/// No run in the folder, an experiment of no sense, no such checkpoint or a damaged one, a missing tokenizer, a
/// device that cannot be opened.
pub fn open(folder: &Path, which: Which, device: Option<&str>) -> Result<Opened> {
    opened(folder, which, device, None)
}

/// [`open`] for windows of another length than the run was trained on: how a position scheme extrapolates.
///
/// # Errors
/// As [`open`]; a run that reads no windows of text; positions that are a table of a fixed length.
pub fn open_at(
    folder: &Path,
    which: Which,
    device: Option<&str>,
    context: usize,
) -> Result<Opened> {
    opened(folder, which, device, Some(context)).map_err(|error| match error {
        Error::Run(reason) => Error::usage(format!(
            "the run cannot read windows of {context}: {reason}"
        )),
        // The flag was given, not the key that it stands for.
        Error::Invalid(mut faults) => {
            let key = format!("--set data.context={context}: ");
            for fault in &mut faults {
                fault.message = fault
                    .message
                    .replace(&key, &format!("--context {context}: "));
            }
            Error::Invalid(faults)
        }
        other => other,
    })
}

fn opened(
    folder: &Path,
    which: Which,
    device: Option<&str>,
    context: Option<usize>,
) -> Result<Opened> {
    run_dir::require_run(folder)?;
    let device = device.map(|d| format!("train.device={d}"));
    let window = context.map(|n| format!("data.context={n}"));
    let sets: Vec<String> = device.into_iter().chain(window).collect();
    let loaded = super::load(&folder.join(run_dir::RESOLVED), &sets)?;
    super::check::check_without_files(&loaded)?;
    let tokenizers = tokenizers(folder)?;
    if tokenizers.text.is_none() && loaded.experiment.data.set().is_text() {
        return Err(Error::run(format!(
            "{} is missing: without it nobody knows what the model's tokens stand for",
            folder.join(run_dir::TOKENIZER).display()
        )));
    }
    let mut shape = shape(folder)?;
    shape.context = context.unwrap_or(shape.context);
    let checkpoint = chosen(folder, which)?;
    let places = run::places(&loaded);
    let experiment = loaded.experiment;
    let device = assemble::device(&experiment, false)?;
    let model = assemble::objective(&experiment, &shape, &device)?;
    let model = match which {
        Which::Average(count) => averaged(folder, count, model)?,
        Which::Best | Which::Latest | Which::Step(_) => checkpoint.load_evaluated(model)?,
    };
    Ok(Opened {
        model: model.valid(),
        experiment,
        places,
        tokenizers,
        shape,
        step: checkpoint.state().step,
    })
}

pub(super) fn chosen(folder: &Path, which: Which) -> Result<Checkpoint> {
    match which {
        Which::Best => best(folder),
        Which::Latest | Which::Average(_) => newest(folder),
        Which::Step(step) => {
            let place = run_dir::steps_of(folder).join(checkpoint::name(step));
            if place.is_dir() {
                return Checkpoint::open(place);
            }
            let there: Vec<String> = checkpoint::steps(folder)
                .iter()
                .map(u64::to_string)
                .collect();
            Err(Error::usage(format!(
                "{} has no checkpoint of step {step}; there are: {}",
                folder.display(),
                there.join(", ")
            )))
        }
    }
}

/// The model with the mean of the weights of the newest `count` checkpoints, each found whole.
fn averaged(folder: &Path, count: usize, model: Objective) -> Result<Objective> {
    let steps = checkpoint::steps(folder);
    if steps.len() < count {
        return Err(Error::usage(format!(
            "{} has {} checkpoints, too few for a mean of {count}; train with [train] keep_last = {count}",
            folder.display(),
            steps.len()
        )));
    }
    let mut newest = steps;
    newest.sort_unstable();
    let files = newest[newest.len() - count..]
        .iter()
        .map(|step| {
            let place = run_dir::steps_of(folder).join(checkpoint::name(*step));
            Ok(Checkpoint::open(place)?.evaluated_weights())
        })
        .collect::<Result<Vec<_>>>()?;
    let mean = mean(&files, &model)?;
    Ok(weights::fill(model, mean))
}

fn best(folder: &Path) -> Result<Checkpoint> {
    let best = folder.join(checkpoint::BEST);
    // A link that leads nowhere is damage, not a run without evaluations.
    if best.symlink_metadata().is_err() {
        return newest(folder);
    }
    Checkpoint::open(best).map_err(|error| instead(error, &checkpoint::newest_whole(folder)))
}

/// The newest checkpoint; what is asked about is never another one in silence.
fn newest(folder: &Path) -> Result<Checkpoint> {
    let mut search = checkpoint::newest_whole(folder);
    if !search.refused.is_empty() {
        let refused = search.refused.swap_remove(0);
        return Err(instead(refused, &search));
    }
    search.found.ok_or_else(|| {
        let shown = folder.display();
        Error::run(format!("{shown} has no checkpoint yet"))
    })
}

/// The error with the newest whole checkpoint, which may be asked for by its step.
fn instead(error: Error, search: &Search) -> Error {
    match &search.found {
        Some(whole) => {
            let step = whole.state().step;
            Error::run(format!(
                "{error}; the newest whole checkpoint is that of step {step}: --checkpoint {step}"
            ))
        }
        None => error,
    }
}

/// Adds a split's scores, made at `step`, to scores.json; several processes may do that at once.
///
/// # Errors
/// A scores.json that cannot be locked or read, which is left as it is, or not be written.
pub fn write_scores(folder: &Path, split: &str, step: u64, scores: &Scores) -> Result<()> {
    // Held to the end: of two that add to the same file, one would write it without the other's split.
    let _lock = run_dir::changing_scores(folder)?;
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

/// Scores as one JSON object.
pub fn scores_json(step: u64, scores: &Scores) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("step".into(), step.into());
    object.insert("loss".into(), scores.loss.into());
    for (name, value) in &scores.metrics {
        object.insert(name.clone(), (*value).into());
    }
    object
}

/// The run's own tokenizers, as far as it has any.
///
/// # Errors
/// A file that is no tokenizer.
pub fn tokenizers(folder: &Path) -> Result<Tokenizers> {
    let load = |name: &str| {
        let path = folder.join(name);
        path.is_file().then(|| Tokenizer::load(&path)).transpose()
    };
    Ok(Tokenizers {
        text: load(run_dir::TOKENIZER)?,
        target: load(run_dir::TARGET_TOKENIZER)?,
    })
}

/// What the run's model knows of its data.
pub(super) fn shape(folder: &Path) -> Result<Shape> {
    let path = folder.join(run_dir::DATA);
    let text = fs::read(&path).map_err(Error::io("read", &path))?;
    serde_json::from_slice(&text)
        .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))
}

/// A command that puts a finished run to use.
pub fn suggested_use(experiment: &Experiment, run: impl std::fmt::Display) -> Option<String> {
    let prompt = match &experiment.train.sample {
        Some(sample) if !sample.prompt.trim().is_empty() => Some(sample.prompt.clone()),
        Some(_) | None => experiment.data.set().prompt(),
    };
    // A text that the run's tokenizer cannot read is no suggestion.
    let known = tokenizers(Path::new(&run.to_string()))
        .ok()
        .and_then(|t| t.text);
    let readable = |text: &String| known.as_ref().is_none_or(|t| t.encode(text).is_ok());
    let prompt = prompt.map(|prompt| match readable(&prompt) {
        true => prompt,
        false => "TEXT".into(),
    });
    match &experiment.task {
        TaskConfig::CausalLm(_) => {
            prompt.map(|prompt| format!("formwork generate {run} --prompt {prompt:?}"))
        }
        TaskConfig::MaskedLm(_) => {
            // The mask stands in the place of the last word.
            let masked = |prompt: String| match prompt.rsplit_once(' ') {
                Some((rest, _)) => format!("{rest} [MASK]"),
                None => format!("{prompt} [MASK]"),
            };
            prompt.map(|prompt| format!("formwork fill {run} --text {:?}", masked(prompt)))
        }
        TaskConfig::Translation(_) => prompt
            .map(|prompt| format!("echo {prompt:?} | formwork translate {run}"))
            .or_else(|| Some(format!("formwork translate {run} --input FILE"))),
        TaskConfig::TextClassification(_) => Some(format!("formwork classify {run} --text TEXT")),
        TaskConfig::ImageClassification(_) => Some(format!("formwork classify {run} FILE.png")),
    }
}
