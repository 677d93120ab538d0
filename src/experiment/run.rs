//! A run from its first file to its last: new, fresh, resumed, or opened for use.

use super::{Experiment, Loaded, build, resolved_toml};
use crate::data::{Data, Places};
use crate::error::{Error, Result};
use crate::generate::{Generator, Sampling};
use crate::task::CausalLm;
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint::{self, Checkpoint};
use crate::train::evaluation::Scores;
use crate::train::job::{Job, Observer, Outcome, Report};
use crate::train::journal::Journal;
use crate::train::machine::Machine;
use crate::train::run_dir::{self, Existing, RunDir};
use crate::train::signal::Stop;
use crate::train::{self, parameters, view::View};
use burn::module::Module;
use std::fs;
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
    /// Told of what a person should know beside the results.
    pub notice: fn(&str),
}

impl Options {
    /// Says nothing.
    pub fn quiet() -> Self {
        Self {
            view: View::Plain,
            report: Box::new(|_| {}),
            sample: Box::new(|_, _| {}),
            notice: |_| {},
        }
    }
}

/// Trains a checked experiment in `folder`.
pub fn train(loaded: &Loaded, folder: &Path, start: Start, options: Options) -> Result<Outcome> {
    let existing = match start {
        Start::ResumeOrNew if run_dir::is_run(folder) => {
            return go_on(&loaded.experiment, &places(loaded), folder, options);
        }
        Start::New | Start::ResumeOrNew => Existing::Refuse,
        Start::Fresh => Existing::Replace,
    };
    let experiment = &loaded.experiment;
    let stop = Stop::on_signals()?;
    let device = build::device(experiment, true)?;
    let data = build::data(experiment, &places(loaded), None)?;
    let run = RunDir::create(folder, existing)?;
    describe(&run, loaded, data.tokenizer.as_ref())?;
    let network = build::network(experiment, data.vocab_size, data.context, &device);
    let model = parameters::materialised(build::task(experiment, network));
    let job = build::job(experiment, &data, &model, run, stop)?;
    launch(experiment, &data, model, job, options)
}

/// Writes what a run is before its first step; the experiment last, since it makes the folder a run.
fn describe(run: &RunDir, loaded: &Loaded, tokenizer: Option<&Tokenizer>) -> Result<()> {
    let experiment = &loaded.experiment;
    let machine = serde_json::to_string_pretty(&Machine::here(&experiment.train.device))
        .map_err(|e| Error::run(format!("cannot describe the machine: {e}")))?;
    run.write(run_dir::MACHINE, format!("{machine}\n").as_bytes())?;
    run.write(run_dir::RESOLVED, resolved_toml(experiment).as_bytes())?;
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(&run.path(run_dir::TOKENIZER))?;
    }
    run.write(run_dir::EXPERIMENT, loaded.source.as_bytes())
}

/// Goes on with the run in `folder` from its newest whole checkpoint.
pub fn resume(folder: &Path, sets: &[String], options: Options) -> Result<Outcome> {
    run_dir::require_run(folder)?;
    let loaded = super::load(&folder.join(run_dir::RESOLVED), sets)?;
    super::check(&loaded)?;
    go_on(&loaded.experiment, &places(&loaded), folder, options)
}

fn go_on(
    experiment: &Experiment,
    places: &Places,
    folder: &Path,
    options: Options,
) -> Result<Outcome> {
    let stop = Stop::on_signals()?;
    let run = RunDir::open(folder)?;
    checkpoint::clean(&run)?;
    let search = checkpoint::newest_whole(folder);
    for refused in &search.refused {
        (options.notice)(&format!("passed over: {refused}"));
    }
    let saved = tokenizer(folder)?;
    let data = build::data(experiment, places, saved.as_ref())?;
    let device = build::device(experiment, true)?;
    let network = build::network(experiment, data.vocab_size, data.context, &device);
    let model = build::task(experiment, network);
    let mut job = build::job(experiment, &data, &model, run, stop)?;
    let model = match search.found {
        Some(found) => restored(&found, model, &mut job)?,
        None if search.refused.is_empty() => parameters::materialised(model),
        None => {
            return Err(Error::run(format!(
                "{} has no whole checkpoint left; start over with: formwork train {} --fresh --run {}",
                folder.display(),
                folder.join(run_dir::EXPERIMENT).display(),
                folder.display()
            )));
        }
    };
    launch(experiment, &data, model, job, options)
}

/// Weights, moments, average and bookkeeping of a checkpoint.
fn restored(found: &Checkpoint, model: CausalLm, job: &mut Job<CausalLm>) -> Result<CausalLm> {
    let model = found.load_model(model)?;
    job.optimizer = found.load_optimizer(job.optimizer.clone(), &model)?;
    if let Some(decay) = job.config.ema {
        job.ema = Some(found.load_ema(decay, &model)?);
    }
    job.state = found.state().clone();
    Ok(model)
}

fn launch(
    experiment: &Experiment,
    data: &Data,
    model: CausalLm,
    job: Job<CausalLm>,
    options: Options,
) -> Result<Outcome> {
    let folder = job.run.root().to_path_buf();
    let view = options.view;
    let samples = match &experiment.train.sample {
        Some(_) => Some(Journal::open(
            job.run.path(run_dir::SAMPLES),
            job.state.samples_bytes,
        )?),
        None => None,
    };
    let observer = Follower {
        options,
        experiment: experiment.clone(),
        tokenizer: data.tokenizer.clone(),
        context: data.context,
        samples,
    };
    let outcome = train::run(model, job, Box::new(observer), view, &experiment.name)?;
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
pub fn open(folder: &Path, device: Option<&str>) -> Result<Opened> {
    run_dir::require_run(folder)?;
    let sets: Vec<String> = device
        .map(|d| format!("train.device={d}"))
        .into_iter()
        .collect();
    let loaded = super::load(&folder.join(run_dir::RESOLVED), &sets)?;
    let tokenizer = tokenizer(folder)?;
    let checkpoint = best(folder)?;
    let places = places(&loaded);
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

/// Where an experiment's data is looked for.
pub fn places(loaded: &Loaded) -> Places {
    Places::new(Some(&loaded.path))
}

fn tokenizer(folder: &Path) -> Result<Option<Tokenizer>> {
    let path = folder.join(run_dir::TOKENIZER);
    if path.is_file() {
        Tokenizer::load(&path).map(Some)
    } else {
        Ok(None)
    }
}

/// Passes reports on and samples text at evaluations.
struct Follower {
    options: Options,
    experiment: Experiment,
    tokenizer: Option<Tokenizer>,
    context: usize,
    samples: Option<Journal>,
}

impl Observer<CausalLm> for Follower {
    fn report(&mut self, report: &Report) {
        (self.options.report)(report);
    }

    fn evaluated(&mut self, step: u64, model: &CausalLm) -> Result<()> {
        let (Some(config), Some(tokenizer), Some(samples)) = (
            &self.experiment.train.sample,
            &self.tokenizer,
            &mut self.samples,
        ) else {
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
        samples.append(&line)?;
        (self.options.sample)(step, &text);
        Ok(())
    }

    fn samples_bytes(&self) -> u64 {
        self.samples.as_ref().map_or(0, Journal::len)
    }
}
