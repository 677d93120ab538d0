//! A run from its first file to its last: new, fresh, resumed, or opened for use.

use super::{Experiment, Loaded, build, resolved_toml};
use crate::data::{Data, Places};
use crate::error::{Error, Result};
use crate::generate::{Generator, Sampling};
use crate::task::CausalLm;
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint;
use crate::train::evaluation::Scores;
use crate::train::job::{Job, Observer, Outcome, Report};
use crate::train::run_dir::RunDir;
use crate::train::{self, parameters, view::View};
use burn::module::Module;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where `train` puts a run that was not told otherwise.
pub fn default_folder(name: &str) -> PathBuf {
    Path::new("checkpoints").join(name)
}

/// What `train` does about a run folder that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Refuses it.
    New,
    /// Deletes it.
    Fresh,
    /// Goes on with it.
    ResumeOrNew,
}

/// How a run is followed.
pub struct Options {
    /// Dashboard or lines.
    pub view: View,
    /// Told of every line of the journal.
    pub report: Box<dyn FnMut(&Report) + Send>,
    /// Told of every sample.
    pub sample: Box<dyn FnMut(u64, &str) + Send>,
}

impl Options {
    /// Says nothing.
    pub fn quiet() -> Self {
        Self {
            view: View::Plain,
            report: Box::new(|_| {}),
            sample: Box::new(|_, _| {}),
        }
    }
}

/// Trains a checked experiment in `folder`.
pub fn train(loaded: &Loaded, folder: &Path, start: Start, options: Options) -> Result<Outcome> {
    match start {
        Start::Fresh => RunDir::remove(folder)?,
        Start::ResumeOrNew if folder.join("resolved.toml").exists() => {
            return go_on(&loaded.experiment, &places(loaded), folder, options);
        }
        Start::New | Start::ResumeOrNew => {}
    }
    let experiment = &loaded.experiment;
    let run = RunDir::create(folder)?;
    let data = build::data(experiment, &places(loaded), None)?;
    run.describe(
        &loaded.source,
        &resolved_toml(experiment),
        data.tokenizer.as_ref(),
        &experiment.train.device,
    )?;
    let device = build::device(experiment, true)?;
    let network = build::network(experiment, data.vocab_size, data.context, &device);
    let model = parameters::materialised(build::task(experiment, network));
    let job = build::job(experiment, &data, &model, run)?;
    launch(experiment, &data, model, job, options)
}

/// Goes on with the run in `folder` from its newest whole checkpoint.
pub fn resume(folder: &Path, sets: &[String], options: Options) -> Result<Outcome> {
    let loaded = super::load(&existing(folder)?.join("resolved.toml"), sets)?;
    super::check(&loaded)?;
    go_on(&loaded.experiment, &places(&loaded), folder, options)
}

fn go_on(
    experiment: &Experiment,
    places: &Places,
    folder: &Path,
    options: Options,
) -> Result<Outcome> {
    let run = RunDir::open(folder)?;
    let saved = tokenizer(folder)?;
    let data = build::data(experiment, places, saved.as_ref())?;
    let device = build::device(experiment, true)?;
    let network = build::network(experiment, data.vocab_size, data.context, &device);
    let model = build::task(experiment, network);
    let mut job = build::job(experiment, &data, &model, run)?;
    let Some(step) = checkpoint::newest_whole(&job.run)? else {
        let model = parameters::materialised(model);
        return launch(experiment, &data, model, job, options);
    };
    let restored = checkpoint::load(&job.run, step, model, job.optimizer, job.ema)?;
    job.optimizer = restored.optimizer;
    job.ema = restored.ema;
    job.state = restored.state;
    forget_samples_after(folder, job.state.step)?;
    launch(experiment, &data, restored.model, job, options)
}

fn launch(
    experiment: &Experiment,
    data: &Data,
    model: CausalLm,
    job: Job<CausalLm>,
    options: Options,
) -> Result<Outcome> {
    let folder = job.run.path().to_path_buf();
    let view = options.view;
    let observer = Follower {
        options,
        experiment: experiment.clone(),
        tokenizer: data.tokenizer.clone(),
        context: data.context,
        samples: folder.join("samples.jsonl"),
    };
    let label = experiment.name.clone();
    let outcome = train::run(model, job, Box::new(observer), view, &label)?;
    if let Some(scores) = &outcome.last {
        write_scores(&folder, "valid", scores)?;
    }
    Ok(outcome)
}

/// A run that is opened for use: evaluation, generation.
pub struct Opened {
    /// What was trained.
    pub experiment: Experiment,
    /// Weights in evaluation mode.
    pub model: CausalLm,
    /// The run's tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// Longest training input.
    pub context: usize,
    /// The checkpoint's step.
    pub step: u64,
}

/// Opens the best checkpoint of a run, or the newest one when no evaluation was made.
pub fn open(folder: &Path, device: Option<&str>) -> Result<Opened> {
    let folder = existing(folder)?;
    let sets: Vec<String> = device.map(|d| format!("train.device={d}")).into_iter().collect();
    let experiment = super::load(&folder.join("resolved.toml"), &sets)?.experiment;
    let tokenizer = tokenizer(folder)?;
    let context = experiment.data.context();
    let vocab_size = match (&tokenizer, &experiment.data) {
        (Some(tokenizer), _) => tokenizer.vocab_size(),
        (None, data) => data.vocab_size().ok_or_else(|| {
            Error::run(format!("{} has no tokenizer.json", folder.display()))
        })?,
    };
    let device = build::device(&experiment, false)?;
    let network = build::network(&experiment, vocab_size, context, &device);
    let task = build::task(&experiment, network);
    let (model, step) = checkpoint::load_weights(folder, task)?;
    Ok(Opened {
        model: model.valid(),
        experiment,
        tokenizer,
        context,
        step,
    })
}

/// Adds a split's scores to scores.json.
pub fn write_scores(folder: &Path, split: &str, scores: &Scores) -> Result<()> {
    let path = folder.join("scores.json");
    let mut all: serde_json::Map<String, serde_json::Value> = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(_) => serde_json::Map::new(),
    };
    all.insert(split.into(), scores_json(scores));
    let text = format!("{:#}\n", serde_json::Value::Object(all));
    train::run_dir::write_atomically(&path, text.as_bytes())
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

fn existing(folder: &Path) -> Result<&Path> {
    if folder.join("resolved.toml").is_file() {
        return Ok(folder);
    }
    Err(Error::usage(format!(
        "{} is not a run folder: it has no resolved.toml",
        folder.display()
    )))
}

/// Where an experiment's data is looked for.
pub fn places(loaded: &Loaded) -> Places {
    Places::beside(&loaded.path)
}

fn tokenizer(folder: &Path) -> Result<Option<Tokenizer>> {
    let path = folder.join("tokenizer.json");
    if path.is_file() {
        Tokenizer::load(&path).map(Some)
    } else {
        Ok(None)
    }
}

/// Drops the samples of steps that a resumed run will take again.
fn forget_samples_after(folder: &Path, step: u64) -> Result<()> {
    let path = folder.join("samples.jsonl");
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    let kept: String = text
        .lines()
        .filter(|line| {
            serde_json::from_str::<serde_json::Value>(line)
                .is_ok_and(|v| v["step"].as_u64().is_some_and(|s| s <= step))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    train::run_dir::write_atomically(&path, kept.as_bytes())
}

/// Passes reports on and samples text at evaluations.
struct Follower {
    options: Options,
    experiment: Experiment,
    tokenizer: Option<Tokenizer>,
    context: usize,
    samples: PathBuf,
}

impl Observer<CausalLm> for Follower {
    fn report(&mut self, report: &Report) {
        (self.options.report)(report);
    }

    fn evaluated(&mut self, step: u64, model: &CausalLm) -> Result<()> {
        let (Some(config), Some(tokenizer)) = (&self.experiment.train.sample, &self.tokenizer)
        else {
            return Ok(());
        };
        let sampling = Sampling {
            temperature: config.temperature,
            seed: self.experiment.seed,
            ..Sampling::default()
        };
        let prompt = tokenizer.encode(&config.prompt)?;
        let mut generator = Generator::new(&model.model, self.context, &prompt)?;
        for _ in 0..config.tokens {
            generator.next(&sampling);
        }
        let text = tokenizer.decode(generator.tokens());
        let line = serde_json::json!({ "step": step, "prompt": config.prompt, "text": text });
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.samples)
            .and_then(|mut file| writeln!(file, "{line}"))
            .map_err(Error::io("write", &self.samples))?;
        (self.options.sample)(step, &text);
        Ok(())
    }
}
