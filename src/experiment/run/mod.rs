//! A run from its first file to its last: new, fresh, resumed, or opened for use.

pub(super) mod changes;
pub(super) mod files;
pub(super) mod observer;

use super::{Experiment, Loaded, assemble, open, resolved_toml, transfer};
use crate::data::{Data, Places, Tokenizers};
use crate::error::{Error, Result};
use crate::task::Objective;
use crate::train::checkpoint::{self, Checkpoint};
use crate::train::job::{Job, Outcome, Report};
use crate::train::journal::Journal;
use crate::train::machine::Machine;
use crate::train::run_dir::{self, Existing, RunDir};
use crate::train::signal::Stop;
use crate::train::{self, parameters, view::View};
use observer::Follower;
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

/// Told of a line of the journal.
pub type OnReport = Box<dyn FnMut(&Report) + Send>;

/// Told of a step and the text that was generated after it.
pub type OnSample = Box<dyn FnMut(u64, &str) + Send>;

/// How a run is followed.
pub struct Options {
    /// Dashboard or lines.
    pub view: View,
    /// Told of every line of the journal.
    pub report: OnReport,
    /// Told of every sample.
    pub sample: OnSample,
    /// Told of what a person should know beside the results.
    pub notice: fn(&str),
    /// Goes on with a run though the files of its data are other ones by now.
    pub other_data: bool,
}

impl Options {
    /// Says nothing.
    pub fn quiet() -> Self {
        Self {
            view: View::Plain,
            report: Box::new(|_| {}),
            sample: Box::new(|_, _| {}),
            notice: |_| {},
            other_data: false,
        }
    }
}

/// Trains a checked experiment in `folder`.
///
/// # Errors
/// Faults of the experiment that only its data and model show, before there is a folder; a folder that holds
/// a run already; what [`train::run`] returns.
pub fn train(loaded: &Loaded, folder: &Path, start: Start, options: Options) -> Result<Outcome> {
    if loaded.experiment.ablation.is_some() {
        return Err(Error::usage(format!(
            "{0} has [ablation], which one run cannot be; use: formwork sweep {0}",
            loaded.path.display()
        )));
    }
    let existing = match start {
        Start::ResumeOrNew if run_dir::is_run(folder) => {
            return go_on(&loaded.experiment, &places(loaded), folder, options);
        }
        Start::New | Start::ResumeOrNew => Existing::Refuse,
        Start::Fresh => Existing::Replace,
    };
    let experiment = &loaded.experiment;
    let device = assemble::device(experiment, true)?;
    let places = places(loaded);
    let from = transfer::folder(experiment, &places)?.and_then(|from| from.canonicalize().ok());
    if from.is_some() && from == folder.canonicalize().ok() {
        return Err(Error::usage(
            "[init] from is the folder of the run itself, which would be replaced; give another with --run",
        ));
    }
    let data = assemble::data_to_train_on(experiment, &places)?;
    require_prompt(experiment, &data.tokenizers)?;
    let stop = Stop::on_signals()?;
    let model = assemble::objective(experiment, &data.shape, &device)?;
    let optimizer = assemble::optimizer(experiment, &model)?;
    let (model, taken) = transfer::weights(experiment, &places, &data, model)?;
    let run = RunDir::create(folder, existing)?;
    files::keep(&run, experiment, &places)?;
    describe(&run, loaded, &data)?;
    if data.left_out > 0 {
        (options.notice)(&format!(
            "{} training pairs are left out: too long ([data] max_len), too unequal (max_ratio) or empty",
            data.left_out
        ));
    }
    if let (Some(taken), Some(from)) = (taken, &experiment.init.from) {
        (options.notice)(&format!("from {}: {taken}", from.display()));
    }
    let model = parameters::materialised(model);
    let job = assemble::job(experiment, &data, &model, optimizer, run, stop);
    launch(experiment, &data, model, job, options)
}

/// An error when the text that is to be continued at evaluations cannot be encoded.
fn require_prompt(experiment: &Experiment, tokenizers: &Tokenizers) -> Result<()> {
    let (Some(sample), Some(tokenizer)) = (&experiment.train.sample, &tokenizers.text) else {
        return Ok(());
    };
    let fault = |reason: &str| {
        Error::usage(format!(
            "[train] sample.prompt = {:?} cannot be continued: {reason}",
            sample.prompt
        ))
    };
    match tokenizer.encode(&sample.prompt) {
        Ok(tokens) if tokens.is_empty() => Err(fault("it has no token; give at least one")),
        Ok(_) => Ok(()),
        Err(error) => Err(fault(&error.to_string())),
    }
}

/// Writes what a run is before its first step; the resolved experiment last, since it makes the folder a run.
fn describe(run: &RunDir, loaded: &Loaded, data: &Data) -> Result<()> {
    let experiment = &loaded.experiment;
    let machine = serde_json::to_string_pretty(&Machine::here(&experiment.train.device))
        .map_err(|e| Error::run(format!("cannot describe the machine: {e}")))?;
    run.write(run_dir::MACHINE, format!("{machine}\n").as_bytes())?;
    let shape = serde_json::to_string_pretty(&data.shape)
        .map_err(|e| Error::run(format!("cannot describe the data: {e}")))?;
    run.write(run_dir::DATA, format!("{shape}\n").as_bytes())?;
    for (tokenizer, file) in [
        (&data.tokenizers.text, run_dir::TOKENIZER),
        (&data.tokenizers.target, run_dir::TARGET_TOKENIZER),
    ] {
        if let Some(tokenizer) = tokenizer {
            run.write(file, tokenizer.json())?;
        }
    }
    run.write(run_dir::EXPERIMENT, loaded.source.as_bytes())?;
    let resolved = resolved_toml(&anchored(experiment, &places(loaded))?);
    run.write(run_dir::RESOLVED, resolved.as_bytes())
}

/// The experiment with paths that mean the same from any folder, since a run is resumed from anywhere.
///
/// # Errors
/// A tokenizer's file that cannot be named from elsewhere.
pub fn anchored(experiment: &Experiment, places: &Places) -> Result<Experiment> {
    let mut experiment = experiment.clone();
    experiment.data = experiment.data.with_paths(|p| places.anchored(p));
    experiment.init.from = experiment
        .init
        .from
        .as_deref()
        .map(|from| places.anchored(from));
    if let Some(tokenizer) = &experiment.tokenizer {
        experiment.tokenizer = Some(tokenizer.with_path(|p| Ok(places.anchored(p)))?);
    }
    Ok(experiment)
}

/// Goes on with the run in `folder` from its newest whole checkpoint. Changed keys are kept in the run.
///
/// # Errors
/// A folder without a run, or without a whole checkpoint among those it has; a change that would make it another
/// run; what [`train::run`] returns.
pub fn resume(folder: &Path, sets: &[String], options: Options) -> Result<Outcome> {
    run_dir::require_run(folder)?;
    let loaded = super::load(&folder.join(run_dir::RESOLVED), sets)?;
    super::check::check_to_go_on(&loaded)?;
    go_on(&loaded.experiment, &places(&loaded), folder, options)
}

fn go_on(
    experiment: &Experiment,
    places: &Places,
    folder: &Path,
    options: Options,
) -> Result<Outcome> {
    let run = RunDir::open(folder)?;
    let stored = super::load(&folder.join(run_dir::RESOLVED), &[])?;
    let asked = anchored(experiment, places)?;
    let stored = anchored(&stored.experiment, &self::places(&stored))?;
    let search = checkpoint::newest_whole(folder);
    let begun = search.found.is_some();
    let changed = changes::between(&stored, &asked, folder, begun)?;
    checkpoint::clean(&run)?;
    for refused in &search.refused {
        (options.notice)(&format!("passed over: {refused}"));
    }
    files::same(&run, experiment, places, &options)?;
    let saved = open::tokenizers(folder)?;
    let data = assemble::data(experiment, places, &saved)?;
    require_prompt(experiment, &data.tokenizers)?;
    let stop = Stop::on_signals()?;
    let device = assemble::device(experiment, true)?;
    let model = assemble::objective(experiment, &data.shape, &device)?;
    let optimizer = assemble::optimizer(experiment, &model)?;
    let model = match &search.found {
        Some(_) => model,
        None if search.refused.is_empty() => {
            let (model, _) = transfer::weights(experiment, places, &data, model)?;
            parameters::materialised(model)
        }
        None => return Err(none_left(folder)),
    };
    let mut job = assemble::job(experiment, &data, &model, optimizer, run, stop);
    let model = match search.found {
        Some(found) => restored(&found, model, &mut job)?,
        None => model,
    };
    if changed {
        let resolved = resolved_toml(&asked);
        job.run.write(run_dir::RESOLVED, resolved.as_bytes())?;
    }
    launch(experiment, &data, model, job, options)
}

/// All checkpoints of the run are damaged. The author's file may extend another one, which the folder does not hold.
fn none_left(folder: &Path) -> Error {
    Error::run(format!(
        "{} has no whole checkpoint left; start over with: formwork train {} --fresh --run {}",
        folder.display(),
        folder.join(run_dir::RESOLVED).display(),
        folder.display()
    ))
}

/// Weights, moments, average and bookkeeping of a checkpoint.
fn restored(found: &Checkpoint, model: Objective, job: &mut Job<Objective>) -> Result<Objective> {
    let model = found.load_model(model)?;
    job.optimizer = found.load_optimizer(job.optimizer.clone(), &model)?;
    if let (Some(decay), false) = (job.config.ema, found.has_ema()) {
        return Err(Error::usage(format!(
            "train.ema = {decay:?} cannot be switched on when a run goes on: {} holds no averaged weights; leave it out",
            found.folder().display()
        )));
    }
    if let Some(decay) = job.config.ema {
        job.ema = Some(found.load_ema(decay, &model)?);
    }
    job.state = found.state().clone();
    job.notes.extend(found.notes());
    if job.state.step > job.config.steps {
        return Err(Error::usage(format!(
            "train.steps = {} lies before the run's newest checkpoint, step {}; steps can be added to a run, not \
             taken back",
            job.config.steps, job.state.step
        )));
    }
    Ok(model)
}

fn launch(
    experiment: &Experiment,
    data: &Data,
    model: Objective,
    job: Job<Objective>,
    options: Options,
) -> Result<Outcome> {
    let folder = job.run.root().to_path_buf();
    let (view, notice) = (options.view, options.notice);
    // A file of samples from before they were switched off keeps its length in every checkpoint.
    let path = job.run.path(run_dir::SAMPLES);
    let kept = job.state.samples_bytes > 0 && path.exists();
    let samples = (experiment.train.sample.is_some() || kept)
        .then(|| Journal::open(path, job.state.samples_bytes))
        .transpose()?;
    let observer = Follower {
        options,
        experiment: experiment.clone(),
        tokenizers: data.tokenizers.clone(),
        context: data.shape.context,
        texts: data.pairs.valid.clone(),
        samples,
    };
    let outcome = train::run(model, job, Box::new(observer), view, &experiment.name)?;
    if let Some(scores) = &outcome.last {
        // The run is done all the same.
        if let Err(error) = open::write_scores(&folder, "valid", outcome.step, scores) {
            notice(&format!("the scores were not kept: {error}"));
        }
    }
    Ok(outcome)
}

/// Where an experiment's data is looked for.
pub fn places(loaded: &Loaded) -> Places {
    Places::new(loaded.path.parent())
}
