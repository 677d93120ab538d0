//! Trains a run from start to end: a new run, a replaced one, or a resumed one.

mod changes;
mod description;
mod found_run;
mod observer;
mod options;
mod ranks;
mod required;

use super::assemble::{self, WeightSource};
use super::data_files::{self, ChangedFiles};
use super::prerequisite::DEFAULT_FOLDER;
use super::{
    Experiment, LoadedExperiment, check, cost, data_summary, epochs, file, initial, judge,
    resolved_toml, run_contents, teacher, temporary_keys, training, transfer,
};
use crate::data::{Data, SearchPath};
use crate::error::{Error, Result};
use crate::stop::StopFlag;
use crate::task::Objective;
use crate::train;
use crate::train::checkpoint;
use crate::train::job::{Job, Outcome};
use crate::train::journal::Journal;
use crate::train::run_dir::{self, Existing, RunDir};
use crate::train::run_manifest;
use crate::train::transfer::INIT;
use description::{describe, restore_machine_json};
use found_run::FoundRun;
use observer::{RunObserver, captions, texts};
pub use options::{Follower, NoFollower, Options};
pub(super) use required::require_data;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the default folder of a run.
pub fn default_folder(name: &str) -> PathBuf {
    Path::new(DEFAULT_FOLDER).join(name)
}

/// What to do if the run's folder already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Refuse to train.
    New,
    /// Replace the existing run.
    Fresh,
    /// Resume the run in it.
    ResumeOrNew,
}

/// Trains a checked experiment in `folder`.
///
/// # Errors
/// Errors of the experiment that only show once its data and model exist (reported before a folder is created); if the folder
/// already holds a run; the errors of [`train::run`].
pub fn train(
    loaded: &LoadedExperiment,
    folder: &Path,
    start: Start,
    mut options: Options,
) -> Result<Outcome> {
    if loaded.experiment.ablation.is_some() {
        return Err(Error::usage(format!(
            "{0} has [ablation] and describes several runs; use: formwork sweep {0}",
            loaded.path.display()
        )));
    }
    let places = loaded.places();
    let ranks = options.ranks.clone();
    ranks::require_shares(&loaded.experiment.train, &ranks)?;
    ranks::require_same_setup(&ranks, &loaded.experiment, folder)?;
    let existing = match start {
        Start::ResumeOrNew if run_dir::is_run(folder) => {
            let asked = ranks::with_steps(&ranks, loaded)?;
            let asked = asked.as_ref().unwrap_or(loaded);
            return resume_in(&asked.experiment, &places, folder, options);
        }
        Start::New | Start::ResumeOrNew => Existing::Refuse,
        Start::Fresh => Existing::Replace,
    };
    let experiment = &loaded.experiment;
    let device = assemble::device_at(experiment, true, ranks.gpu())?;
    let mut others = Vec::new();
    for (key, other) in transfer::folders(experiment, &places) {
        others.push((key, other?));
    }
    if let Some(frozen) = teacher::frozen_run(experiment) {
        others.push((frozen.key, frozen.folder(&places)?));
    }
    others.extend(judge::folder(experiment, &places)?.map(|folder| (judge::PATH, folder)));
    for (key, other) in others {
        let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
        let other = other.canonicalize().ok();
        if other.is_some() && other == folder.canonicalize().ok() {
            return Err(Error::usage(format!(
                "[{table}] {key} is the folder of the run itself, which would be replaced; choose another folder with --run"
            )));
        }
    }
    let data = ranks::training_data(&ranks, loaded)?;
    let settled = epochs::with_steps(loaded, &data)?;
    let loaded = settled.as_ref().unwrap_or(loaded);
    let experiment = &loaded.experiment;
    require_data(experiment, &data)?;
    cost::require_memory(experiment, &places, &data.shape)?;
    let stop = StopFlag::on_signals()?;
    let weights = WeightSource::Initial {
        places: &places,
        tokenizers: &data.tokenizers,
    };
    let mut training = training::training(experiment, &data.shape, &device, &weights)?;
    let prints = training.attach_teacher_and_judge(experiment, &places, &data, [None, None])?;
    training.set_changeable_keys(None, changes::changeable(experiment)?);
    ranks::require_same_start(&ranks, &data, &training.model)?;
    let run = match ranks.is_first() {
        true => RunDir::create(folder, existing)?,
        false => RunDir::of_other_rank(folder),
    };
    if ranks.is_first() {
        let taken = training.transferred.as_ref();
        let checkpoints = taken.map_or(&[][..], |taken| taken.checkpoints.as_slice());
        let shared = describe(&run, loaded, &data, &prints, checkpoints)?;
        shared.iter().for_each(|shared| (options.notice)(shared));
    }
    let notes = data_summary::notes(experiment, &data);
    notes.iter().for_each(|note| (options.notice)(note));
    for line in data_summary::sizes(&data) {
        options.follower.data(&line);
    }
    for note in data.tokenizers.notes() {
        (options.notice)(note);
    }
    for note in data_summary::unread_messages(&data) {
        (options.notice)(&note);
    }
    if let Some(taken) = &training.transferred {
        let from = experiment.init.initial_runs().into_iter();
        let from: Vec<String> = from.map(|one| one.from.display().to_string()).collect();
        (options.notice)(&format!("from {}: {taken}", from.join(" and ")));
    }
    if let Some(note) = &training.teacher_note {
        (options.notice)(note);
    }
    let (model, job) = training.job(experiment, &data, run, stop, ranks);
    launch(experiment, &data, model, job, options)
}

/// Resumes the run in `folder` from its newest complete checkpoint whose journal lines are all there. Changed keys are stored
/// in the run. A run that has ended and lacks nothing is left unchanged byte for byte, unless its files were moved.
///
/// # Errors
/// If the folder holds no run, or has checkpoints of which none is complete; if a changed key must not change; the errors of
/// [`train::run`].
pub fn resume(folder: &Path, sets: &[String], options: Options) -> Result<Outcome> {
    run_dir::require_run(folder)?;
    run_manifest::verify(folder)?;
    temporary_keys::require_no_unset(sets)?;
    let loaded = file::load(&folder.join(run_dir::RESOLVED), sets)?;
    check::check_for_resume(&loaded)?;
    ranks::require_shares(&loaded.experiment.train, &options.ranks)?;
    ranks::require_same_setup(&options.ranks, &loaded.experiment, folder)?;
    let loaded = ranks::with_steps(&options.ranks, &loaded)?.unwrap_or(loaded);
    resume_in(&loaded.experiment, &loaded.places(), folder, options)
        .map_err(|error| check::locate_error(&loaded, error))
}

fn resume_in(
    asked: &Experiment,
    places: &SearchPath,
    folder: &Path,
    options: Options,
) -> Result<Outcome> {
    let ranks = options.ranks.clone();
    let ended =
        ranks::outcome_of_first(&ranks, || finished_outcome(asked, places, folder, &options))?;
    if let Some(outcome) = ended {
        return Ok(outcome);
    }
    let run = ranks::in_turn(&ranks, || {
        if !ranks.is_first() {
            return Ok(RunDir::of_other_rank(folder));
        }
        let run = RunDir::open(folder)?;
        checkpoint::clean(&run)?;
        Ok(run)
    })?;
    let standing = FoundRun::of(asked, places, folder)?;
    let search = &standing.search;
    for refused in &search.refused {
        (options.notice)(&format!("skipped: {refused}"));
    }
    // The link `latest` remains if its checkpoint was deleted.
    let had = !search.refused.is_empty() || folder.join(checkpoint::LATEST).is_symlink();
    if search.found.is_none() && had {
        return Err(found_run::no_checkpoint_error(folder));
    }
    if let (Some(newest), true) = (search.newest(), ranks.is_first()) {
        checkpoint::fix_links(folder, newest.state())?;
    }
    let experiment = &standing.experiment_to_resume(asked, &options);
    let held = data_files::locate_and_verify(
        folder,
        experiment,
        &standing.stored.data,
        places,
        options.changed_files,
        options.notice,
    )?;
    let saved = run_contents::tokenizers(folder)?;
    let mut shape = run_contents::shape(folder)?;
    run_contents::require_vocabulary(folder, &saved, &shape)?;
    let saved = run_contents::with_framing(saved, experiment, &shape)?;
    if options.changed_files == ChangedFiles::Accept {
        // Changed texts need a new retrieval database.
        shape.database = None;
    }
    let located = Experiment {
        data: held.data.clone(),
        ..experiment.clone()
    };
    let data = ranks::in_turn(&ranks, || {
        assemble::data(&located, places, &saved, Some(&shape))
    })?;
    require_data(experiment, &data)?;
    let notes = data_summary::notes(experiment, &data);
    notes.iter().for_each(|note| (options.notice)(note));
    let others = judge::all_stored_weights(experiment, folder)?;
    cost::require_memory(experiment, places, &data.shape)?;
    let stop = StopFlag::on_signals()?;
    let device = assemble::device_at(experiment, true, ranks.gpu())?;
    let weights = match &search.found {
        Some(found) => WeightSource::ForTraining(found),
        None => WeightSource::Initial {
            places,
            tokenizers: &data.tokenizers,
        },
    };
    let mut training = training::training(experiment, &data.shape, &device, &weights)?;
    let others = others.each_ref().map(Option::as_ref);
    training.attach_teacher_and_judge(experiment, places, &data, others)?;
    let before = changes::changeable(&standing.stored)?;
    let after = changes::changeable(experiment)?;
    for line in changes::change_messages(&before, &after) {
        (options.notice)(&line);
    }
    let of_others = training.forget_best(held.last_step_with_other_eval_data(search.step()));
    if training.set_changeable_keys(Some(before), after) || of_others {
        (options.notice)(changes::BEST_RESET);
    }
    ranks::require_same_start(&ranks, &data, &training.model)?;
    let mut files = Vec::new();
    files.extend((held.updated_files_json(search.step())?).map(|text| (run_dir::FILES, text)));
    files.extend(restore_machine_json(folder, experiment, options.notice)?);
    if let Some(taken) = &training.transferred {
        // A run without a checkpoint starts again, from the weights that its source has now.
        let text = initial::init_json(&taken.checkpoints, experiment, places, folder)?;
        files.push((INIT, text));
    }
    if !standing.changed.is_empty() || standing.paths_changed {
        let resolved = description::comment(folder)
            + &resolved_toml(&experiment.with_portable_paths(places, folder)?);
        files.push((run_dir::RESOLVED, resolved.into_bytes()));
    }
    if ranks.is_first() {
        run_manifest::replace(&run, &files)?;
    }
    let (model, job) = training.job(experiment, &data, run, stop, ranks);
    launch(experiment, &data, model, job, options)
}

/// Returns the outcome of a run that has ended and lacks nothing; nothing is written. A folder in which a process trains, or in
/// which one was interrupted, is examined later, under its lock.
fn finished_outcome(
    asked: &Experiment,
    places: &SearchPath,
    folder: &Path,
    options: &Options,
) -> Result<Option<Outcome>> {
    // A run that has steps left is not verified here, to avoid computing checksums twice.
    let newest = checkpoint::steps(folder).last().copied();
    let has_steps = newest.is_none_or(|step| step < asked.train.steps);
    if has_steps && asked.train.patience.is_none() || run_dir::is_busy(folder) {
        return Ok(None);
    }
    let standing = FoundRun::of(asked, places, folder)?;
    let copies = standing
        .changed
        .iter()
        .any(|key| found_run::is_journal_copy_key(key));
    let changes = copies || standing.paths_changed;
    let outcome = standing.outcome(asked, folder).filter(|_| !changes);
    if let (Some(_), Some(text)) = (&outcome, standing.nothing_to_do(asked)) {
        (options.notice)(&text);
    }
    Ok(outcome)
}

fn launch(
    experiment: &Experiment,
    data: &Data,
    model: Objective,
    mut job: Job<Objective>,
    mut options: Options,
) -> Result<Outcome> {
    job.pause_at = options.pause_at;
    let (folder, notice) = (job.run.root().to_path_buf(), options.notice);
    // Samples written before sampling was switched off keep their length in every checkpoint.
    let path = job.run.path(run_dir::SAMPLES);
    let kept = path.exists();
    let ranks = job.ranks.clone();
    let samples = (ranks.is_first() && (experiment.train.sample.is_some() || kept))
        .then(|| Journal::open(path, job.state.samples_bytes))
        .transpose()?;
    let outline = job.summary(&experiment.name);
    let view = options.follower.view(&outline);
    let limits = Arc::new(Mutex::new(Vec::new()));
    let observer = RunObserver {
        limits: limits.clone(),
        stop: job.stop.clone(),
        sample: None,
        options,
        experiment: experiment.clone(),
        tokenizers: data.tokenizers.clone(),
        context: data.shape.context,
        database: data.database.clone(),
        texts: texts(experiment, data, job.state.drawn_part),
        captions: captions(experiment, data),
        samples,
    };
    let outcome = train::run(model, job, Box::new(observer), view)?;
    // An untrained model rarely ends its texts, so only the limits reached in the last evaluation are reported.
    let limits = limits.lock().unwrap_or_else(PoisonError::into_inner);
    limits.iter().for_each(|told| notice(told));
    if let (Some(scores), true) = (&outcome.last, ranks.is_first()) {
        // The run is complete even if its scores cannot be stored.
        if let Err(error) = run_contents::write_scores(&folder, "valid", outcome.step, scores) {
            notice(&format!("the scores were not saved: {error}"));
        }
    }
    Ok(outcome)
}
