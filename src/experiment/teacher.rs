//! Opens the frozen run that trains another one and hands it to the task: the teacher of a distillation, or the reference model
//! of preference learning. Neither the task nor the training loop knows a path.
//!
//! A run stores the SHA-256 of the weights that it learns from (`teacher.json`). It is resumed with the same weights, wherever
//! they are by then. A trained student needs no teacher; a model that learned preferences needs its reference when it is
//! evaluated on pairs.

mod compatibility;
mod frozen_run;

use super::open::OpenedRun;
use super::prerequisite::DEFAULT_FOLDER;
use super::run_contents::{self, CheckpointChoice};
use super::{Experiment, LoadedExperiment, file, open};
use crate::data::images::normalise::Renormalise;
use crate::data::{Data, SearchPath, Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::model::{ThroughputUnit, Use};
use crate::task::{AnyTask, Objective};
use crate::train::checkpoint::Checkpoint;
use crate::train::run_dir;
use compatibility::require_compatible;
pub(super) use compatibility::same_tokens;
pub use frozen_run::{FrozenRun, frozen_run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Identity of the weights that a run learns from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsId {
    /// Step of their checkpoint.
    pub step: u64,
    /// SHA-256 of the weights file, in hexadecimal.
    pub sha256: String,
}

impl WeightsId {
    /// Reads `teacher.json` of a run.
    ///
    /// # Errors
    /// If the file is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        Self::of_file(&folder.join(run_dir::TEACHER))
    }

    /// Reads a file in the format of `teacher.json`.
    ///
    /// # Errors
    /// If the file is missing or damaged.
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let text = fs::read(path).map_err(Error::io("read", path))?;
        serde_json::from_slice(&text)
            .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))
    }

    /// Serialises the identity as the file's content.
    ///
    /// # Errors
    /// Only if serialisation fails, which no value can cause.
    pub fn text(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::run(format!("cannot describe the teacher: {e}")))?;
        Ok(format!("{text}\n").into_bytes())
    }
}

/// Cache of teacher weights, by run folder and requested checkpoint.
pub type WeightsCache = BTreeMap<(PathBuf, Option<String>), WeightsId>;

/// Returns the weights that a new run of the experiment would learn from now; `known` caches checkpoints read before.
///
/// # Errors
/// As [`folder`]; if there is no such checkpoint or it is damaged.
pub fn current_weights(
    experiment: &Experiment,
    places: &SearchPath,
    known: &mut WeightsCache,
) -> Result<Option<WeightsId>> {
    let Some(named) = frozen_run(experiment) else {
        return Ok(None);
    };
    let place = (named.folder(places)?, named.requested_checkpoint());
    if let Some(found) = known.get(&place) {
        return Ok(Some(found.clone()));
    }
    let chosen = run_contents::find_checkpoint(&place.0, named.which()?);
    let found = weights_id(&chosen.map_err(|error| named.as_key(error))?)?;
    known.insert(place, found.clone());
    Ok(Some(found))
}

/// Returns the identity of a checkpoint's weights.
///
/// # Errors
/// If the checkpoint is damaged.
pub(super) fn weights_id(checkpoint: &Checkpoint) -> Result<WeightsId> {
    Ok(WeightsId {
        step: checkpoint.state().step,
        sha256: checkpoint.evaluated_weights_sha256()?.to_string(),
    })
}

/// Returns the stored identity of the weights that a run learned from, if the experiment has a teacher or reference.
///
/// # Errors
/// As [`WeightsId::read`].
pub fn stored_weights(experiment: &Experiment, folder: &Path) -> Result<Option<WeightsId>> {
    let run = experiment.task.frozen_run();
    run.map(|_| WeightsId::read(folder)).transpose()
}

/// A teacher or reference model, ready for use.
pub struct Teacher {
    /// Its task in evaluation mode.
    pub task: AnyTask,
    /// Identity of its weights.
    pub print: WeightsId,
    /// Conversion from the data's pixel normalisation to that of the teacher's training, if they differ.
    pub pixels: Option<Renormalise>,
    /// Message about how the teacher's training images differ from the data, and about its number format if that differs.
    pub note: Option<String>,
}

/// A model with its teacher attached, if it learns from one.
pub struct WithTeacher {
    /// The model.
    pub model: Objective,
    /// Identity of the teacher's weights.
    pub print: Option<WeightsId>,
    /// As [`Teacher::note`].
    pub note: Option<String>,
}

/// Returns the folder of the teacher's or reference's run.
///
/// # Errors
/// As [`FrozenRun::folder`].
pub fn folder(experiment: &Experiment, places: &SearchPath) -> Result<Option<PathBuf>> {
    let named = frozen_run(experiment);
    named.map(|named| named.folder(places)).transpose()
}

/// Loads the experiment of the teacher, with its task in the form for inference.
///
/// # Errors
/// As [`folder`]; if that experiment is invalid.
pub fn stored_experiment(
    experiment: &Experiment,
    places: &SearchPath,
) -> Result<Option<Experiment>> {
    let folder = folder(experiment, places)?;
    let found = folder
        .map(|folder| open::stored_experiment(&folder))
        .transpose()?;
    Ok(found.map(for_inference))
}

/// As [`stored`], or else the experiment that will be trained to become the teacher; `None` if neither exists.
pub(super) fn planned_experiment(loaded: &LoadedExperiment) -> Option<Experiment> {
    let found = match loaded.prerequisite(frozen_run(&loaded.experiment)?.key) {
        Some(before) => file::load_with_runs(&before.file, &[], Path::new(DEFAULT_FOLDER))
            .ok()
            .map(|loaded| for_inference(loaded.experiment)),
        None => None,
    };
    let stored = || stored_experiment(&loaded.experiment, &loaded.places());
    found.or_else(|| stored().ok().flatten())
}

fn for_inference(mut experiment: Experiment) -> Experiment {
    experiment.task = experiment.task.without_training_parts();
    experiment
}

/// Opens the teacher of an experiment whose data has this shape. `held` are the weights that the run has learned from so far.
///
/// # Errors
/// If there is no run or no such checkpoint; if its task, vocabulary, classes, images or width differ, or its position table is
/// too short; if its weights are not those of `held`.
pub fn open(
    experiment: &Experiment,
    places: &SearchPath,
    (shape, tokenizers): (&Shape, &Tokenizers),
    held: Option<&WeightsId>,
) -> Result<Option<Teacher>> {
    let Some(named) = frozen_run(experiment) else {
        return Ok(None);
    };
    let folder = named.folder(places)?;
    let step = |print: &WeightsId| {
        let there = crate::train::checkpoint::steps(&folder).contains(&print.step);
        there.then_some(CheckpointChoice::Step(print.step))
    };
    let which = held.and_then(step).map_or_else(|| named.which(), Ok)?;
    let checkpoint =
        run_contents::find_checkpoint(&folder, which).map_err(|error| named.as_key(error))?;
    let print = weights_id(&checkpoint)?;
    if let Some(held) = held.filter(|held| held.sha256 != print.sha256) {
        return Err(named.run_error(
            &folder,
            format!(
                "is not the {} that the run began with: the weights have the sha256 {}, not {} (step {}); a run cannot continue \
                 with another one: restore it, or start a new run",
                named.role, print.sha256, held.sha256, held.step
            ),
        ));
    }
    let device = &experiment.train.device;
    let opened = open::open_companion(&folder, CheckpointChoice::Step(print.step), device)?;
    if let Some((_, rule)) = key_conflict(experiment, &opened.experiment) {
        let table = named.key.split('.').next().unwrap_or_default();
        return Err(Error::usage(format!("[{table}] {rule}")));
    }
    require_compatible(&named, &folder, &opened, (shape, tokenizers))?;
    let formats = [&opened.experiment, experiment].map(|run| run.train.dtype);
    let formats = match named.is_initial_run() {
        // The number format of the run that training starts from is reported elsewhere.
        true => None,
        false => compatibility::number_format_note(&named, &folder, formats),
    };
    let images = compatibility::note(&folder, &opened.shape, shape);
    let notes: Vec<String> = images.into_iter().chain(formats).collect();
    Ok(Some(Teacher {
        pixels: compatibility::pixels(&opened.shape, shape),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        task: opened.model.0,
        print,
    }))
}

/// Attaches the reference model to the model of an opened run if its evaluations need one; `folder` is the run's folder.
///
/// # Errors
/// As [`open`] and [`WeightsId::read`].
pub fn attach_reference(opened: &mut OpenedRun, folder: &Path) -> Result<()> {
    let run = opened.experiment.task.frozen_run();
    if run.is_none_or(|run| !run.in_evaluations) {
        return Ok(());
    }
    let held = stored_weights(&opened.experiment, folder)?;
    let of_data = (&opened.shape, &opened.tokenizers);
    let found = open(&opened.experiment, &opened.places, of_data, held.as_ref())?;
    if let Some(reference) = found {
        opened.model = Objective(opened.model.0.clone().with_teacher(reference.task));
    }
    Ok(())
}

/// Attaches the teacher or reference to a model, if the experiment has one.
///
/// # Errors
/// As [`open`].
pub fn with_teacher(
    experiment: &Experiment,
    places: &SearchPath,
    data: &Data,
    held: Option<&WeightsId>,
    model: Objective,
) -> Result<WithTeacher> {
    let of_data = (&data.shape, &data.tokenizers);
    Ok(match open(experiment, places, of_data, held)? {
        Some(teacher) => WithTeacher {
            model: Objective(
                model
                    .0
                    .with_teacher(teacher.task)
                    .with_pixels(teacher.pixels),
            ),
            print: Some(teacher.print),
            note: teacher.note,
        },
        None => WithTeacher {
            model,
            print: None,
            note: None,
        },
    })
}

/// Checks a model's keys against those of its teacher; returns the contradicting keys and a message.
pub(super) fn key_conflict(
    student: &Experiment,
    teacher: &Experiment,
) -> Option<(Vec<&'static str>, String)> {
    let Some(config) = student.task.distillation() else {
        return not_a_language_model(frozen_run(student)?, teacher);
    };
    let (ours, theirs) = (config.of.network_use(), teacher.task.network_use());
    if ours != theirs {
        let rule = format!(
            "teacher was trained for the task {}, but of = {{ kind = \"{}\" }} is a different task",
            teacher.task.kind(),
            config.of.kind()
        );
        return Some((vec!["task.teacher", "task.of.kind"], rule));
    }
    if teacher.task.facts().has_towers() {
        let rule = "teacher reads the two texts of an example separately (towers), but a student reads them in one row and needs \
                    hidden states for it; name a run without towers";
        return Some((vec!["task.teacher"], rule.into()));
    }
    let of_images = student.model.throughput_unit() == ThroughputUnit::Image;
    let [ours, theirs] = [student, teacher].map(|experiment| match of_images {
        true => experiment.model.d_pooled(),
        false => experiment.model.d_output(),
    });
    (config.cosine > 0.0 && ours != theirs).then(|| {
        let remedy = match student.model.patch_network() {
            Some(_) => format!(
                "choose model.d_model and model.pooling so that the width is {theirs} (\"class_and_mean\" is twice as wide as d_model)"
            ),
            None => format!("d_model = {theirs}"),
        };
        let rule = format!(
            "cosine = {:?} compares hidden states, which are {ours} wide here and {theirs} wide in the teacher: set cosine \
             = 0.0, or {remedy}",
            config.cosine
        );
        (vec!["task.cosine", "task.teacher"], rule)
    })
}

/// The error for a reference that is not a language model.
fn not_a_language_model(
    named: FrozenRun,
    reference: &Experiment,
) -> Option<(Vec<&'static str>, String)> {
    let (kind, key) = (reference.task.kind(), named.key);
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    (reference.task.network_use() != Use::NextTokens).then(|| {
        let rule = format!(
            "{name} is a run of the task {kind}, but a reference must be a language model: name a run of causal_lm"
        );
        (vec![key, "task.kind"], rule)
    })
}

/// Returns the tokenizers of the teacher's or reference's run.
///
/// # Errors
/// As [`folder`]; if a tokenizer is damaged.
pub(super) fn tokenizers(experiment: &Experiment, places: &SearchPath) -> Result<Tokenizers> {
    match folder(experiment, places)? {
        Some(folder) => run_contents::framed_tokenizers(&folder),
        None => Ok(Tokenizers::default()),
    }
}
