//! A run that is there: opened for evaluation and generation, its scores written down.

use super::{Experiment, build, run};
use crate::data::{DataConfig, Places};
use crate::error::{Error, Result};
use crate::task::CausalLm;
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint::{self, Checkpoint};
use crate::train::evaluation::Scores;
use crate::train::run_dir;
use burn::module::Module;
use std::fs;
use std::path::Path;

/// A run that is opened for use: evaluation, generation.
pub struct Opened {
    /// What was trained.
    pub experiment: Experiment,
    /// Weights in evaluation mode.
    pub model: CausalLm,
    /// Where its data is looked for.
    pub places: Places,
    /// The run's tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// Longest training input.
    pub context: usize,
    /// The checkpoint's step.
    pub step: u64,
}

/// Opens the best checkpoint of a run, or the newest whole one when no evaluation was made.
///
/// # Errors
/// A folder that holds no run or no whole checkpoint, and weights that are not this model's.
pub fn open(folder: &Path, device: Option<&str>) -> Result<Opened> {
    run_dir::require_run(folder)?;
    let sets: Vec<String> = device
        .map(|d| format!("train.device={d}"))
        .into_iter()
        .collect();
    let loaded = super::load(&folder.join(run_dir::RESOLVED), &sets)?;
    let tokenizer = tokenizer(folder)?;
    let checkpoint = best(folder)?;
    let places = run::places(&loaded);
    let experiment = loaded.experiment;
    let context = experiment.data.context();
    let device = build::device(&experiment, false)?;
    let vocab_size = match &tokenizer {
        Some(tokenizer) => tokenizer.vocab_size(),
        None => build::data(&experiment, &places, None)?.vocab_size,
    };
    let network = build::network(&experiment, vocab_size, context, &device);
    let model = checkpoint.load_evaluated(build::task(&experiment, network))?;
    Ok(Opened {
        model: model.valid(),
        experiment,
        places,
        tokenizer,
        context,
        step: checkpoint.state().step,
    })
}

fn best(folder: &Path) -> Result<Checkpoint> {
    let best = folder.join(checkpoint::BEST);
    if best.exists() {
        return Checkpoint::open(best);
    }
    let search = checkpoint::newest_whole(folder);
    match (search.found, search.refused.into_iter().next()) {
        (Some(found), _) => Ok(found),
        (None, Some(refused)) => Err(refused),
        (None, None) => Err(Error::run(format!(
            "{} has no checkpoint yet",
            folder.display()
        ))),
    }
}

/// Adds a split's scores to scores.json.
///
/// # Errors
/// When the disk refuses; the file is then as it was.
pub fn write_scores(folder: &Path, split: &str, scores: &Scores) -> Result<()> {
    let path = folder.join("scores.json");
    let mut all: serde_json::Map<String, serde_json::Value> = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(_) => serde_json::Map::new(),
    };
    all.insert(split.into(), scores_json(scores));
    let text = format!("{:#}\n", serde_json::Value::Object(all));
    let partial = folder.join("scores.json.tmp");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, &path))
        .map_err(Error::io("write", &path))
}

/// Scores as one JSON object.
pub fn scores_json(scores: &Scores) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("loss".into(), scores.loss.into());
    for (name, value) in &scores.metrics {
        object.insert(name.clone(), (*value).into());
    }
    object.into()
}

/// The run's own tokenizer, when it has one.
///
/// # Errors
/// A tokenizer.json that cannot be read.
pub fn tokenizer(folder: &Path) -> Result<Option<Tokenizer>> {
    let path = folder.join(run_dir::TOKENIZER);
    if path.is_file() {
        Tokenizer::load(&path).map(Some)
    } else {
        Ok(None)
    }
}

/// A text that a model trained on this data can continue.
pub fn suggested_prompt(experiment: &Experiment) -> Option<String> {
    match &experiment.data {
        DataConfig::Text(_) => Some(match &experiment.train.sample {
            Some(sample) if !sample.prompt.trim().is_empty() => sample.prompt.clone(),
            _ => "The ".into(),
        }),
        DataConfig::Arithmetic(c) => {
            let operation = c.operations.first()?;
            let operand = |digits: &str| digits.repeat(c.digits as usize);
            Some(format!("{}{operation}{}=", operand("1"), operand("2")))
        }
        DataConfig::Copy(c) => Some(letters(c.length, c.symbols)),
        DataConfig::Reverse(c) => Some(letters(c.length, c.symbols)),
        DataConfig::Sort(c) => Some(letters(c.length, c.symbols)),
        DataConfig::RandomTokens(_) => None,
    }
}

/// A question about a string of this many of the first symbols.
fn letters(length: usize, symbols: usize) -> String {
    let alphabet: Vec<char> = crate::data::problems::symbols(symbols).collect();
    let string: String = alphabet.iter().rev().cycle().take(length).collect();
    format!("{string}=")
}
