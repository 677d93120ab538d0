//! The teacher of a distillation: another run, opened for use and handed to the task. Neither the task nor the step loop
//! knows a path.
//!
//! A run keeps the SHA-256 of the weights that it learns from (`teacher.json`): it is resumed with the same ones, wherever
//! they lie by then. A trained student needs no teacher.

mod fits;

use super::prerequisite::RUNS;
use super::saved::{self, Which};
use super::{Experiment, Loaded, file, open, transfer};
use crate::data::images::normalise::Renormalise;
use crate::data::{Data, Places, Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::task::{AnyTask, DistillationConfig, Objective};
use crate::train::checkpoint::Checkpoint;
use crate::train::{run_dir, run_files};
use fits::fits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The weights that a run learns from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Print {
    /// The step of their checkpoint.
    pub step: u64,
    /// Of the file of weights, in hexadecimal.
    pub sha256: String,
}

impl Print {
    /// `teacher.json` of a run.
    ///
    /// # Errors
    /// A file that is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(run_dir::TEACHER);
        let text = fs::read(&path).map_err(Error::io("read", &path))?;
        serde_json::from_slice(&text)
            .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))
    }

    /// The file's content.
    ///
    /// # Errors
    /// None that a print can cause.
    pub fn text(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::run(format!("cannot describe the teacher: {e}")))?;
        Ok(format!("{text}\n").into_bytes())
    }
}

/// Teachers by their runs and the checkpoints that were asked for.
pub type Known = BTreeMap<(PathBuf, Option<String>), Print>;

/// The weights that a new run of the experiment would learn from now; `known` saves reading a checkpoint again.
///
/// # Errors
/// As [`folder`]; no such checkpoint, or a damaged one.
pub fn present(
    experiment: &Experiment,
    places: &Places,
    known: &mut Known,
) -> Result<Option<Print>> {
    let (Some(folder), Some(config)) =
        (folder(experiment, places)?, experiment.task.distillation())
    else {
        return Ok(None);
    };
    let place = (folder, config.teacher_checkpoint.clone());
    if let Some(found) = known.get(&place) {
        return Ok(Some(found.clone()));
    }
    let found = print(&saved::chosen(&place.0, which(config)?).map_err(as_key)?)?;
    known.insert(place, found.clone());
    Ok(Some(found))
}

fn print(checkpoint: &Checkpoint) -> Result<Print> {
    Ok(Print {
        step: checkpoint.state().step,
        sha256: checkpoint.evaluated_sum()?.to_string(),
    })
}

/// A teacher that is ready.
pub struct Teacher {
    /// Its task in evaluation mode.
    pub task: AnyTask,
    /// Its weights.
    pub print: Print,
    /// From the pixels of the data to those that it was trained on, where they differ.
    pub pixels: Option<Renormalise>,
    /// The differences between the images that it was trained on and those of the data.
    pub note: Option<String>,
}

/// A model that has its teacher, where it learns from one.
pub struct Taught {
    /// The model.
    pub model: Objective,
    /// The teacher's weights.
    pub print: Option<Print>,
    /// As [`Teacher::note`].
    pub note: Option<String>,
}

/// The folder of the run that teaches.
///
/// # Errors
/// No run there, or one whose files were changed.
pub fn folder(experiment: &Experiment, places: &Places) -> Result<Option<PathBuf>> {
    let Some(config) = experiment.task.distillation() else {
        return Ok(None);
    };
    let folder = places.anchored(&config.teacher);
    run_dir::require_run(&folder).map_err(|error| {
        Error::usage(format!(
            "[task] teacher = {:?}: {error}; train that run first, or name the place where it lies now",
            config.teacher
        ))
    })?;
    run_files::verify(&folder)?;
    Ok(Some(folder))
}

/// The experiment of the run that teaches, with its task as it is used.
///
/// # Errors
/// As [`folder`]; faults of that experiment.
pub fn stored(experiment: &Experiment, places: &Places) -> Result<Option<Experiment>> {
    let folder = folder(experiment, places)?;
    let found = folder.map(|folder| open::stored(&folder)).transpose()?;
    Ok(found.map(of_use))
}

/// [`stored`], or what it will be once its experiment is trained; `None` when neither is there.
pub(super) fn planned(loaded: &Loaded) -> Option<Experiment> {
    let found = match loaded.prerequisite("task.teacher") {
        Some(before) => file::load_with_runs(&before.file, &[], Path::new(RUNS))
            .ok()
            .map(|loaded| of_use(loaded.experiment)),
        None => None,
    };
    found.or_else(|| stored(&loaded.experiment, &loaded.places()).ok().flatten())
}

fn of_use(mut experiment: Experiment) -> Experiment {
    experiment.task = experiment.task.of_use();
    experiment
}

/// The checkpoint that a distillation names.
///
/// # Errors
/// A value that is none, or a mean of several.
pub(super) fn which(config: &DistillationConfig) -> Result<Which> {
    let text = config.teacher_checkpoint.as_deref().unwrap_or("best");
    let fault = |rule: String| {
        Error::usage(format!(
            "[task] teacher_checkpoint = {text:?} is none; {rule}"
        ))
    };
    match text.parse().map_err(fault)? {
        Which::Average(_) => Err(fault(
            "give best, latest or the number of a step: a teacher is one checkpoint".into(),
        )),
        which => Ok(which),
    }
}

/// The teacher of an experiment whose data has this shape; `held` is what the run has learned from so far.
///
/// # Errors
/// No run, no such checkpoint; another task, vocabulary, classes, images or width, or positions that end too early;
/// weights that are not those of `held`.
pub fn open(
    experiment: &Experiment,
    places: &Places,
    (shape, tokenizers): (&Shape, &Tokenizers),
    held: Option<&Print>,
) -> Result<Option<Teacher>> {
    let (Some(folder), Some(config)) =
        (folder(experiment, places)?, experiment.task.distillation())
    else {
        return Ok(None);
    };
    let dtype = open::stored(&folder)?.train.dtype;
    if dtype != experiment.train.dtype {
        return Err(wrong(
            &folder,
            format!(
                "computes in {dtype:?}, and this run in {:?}: set train.dtype to that",
                experiment.train.dtype
            ),
        ));
    }
    let step = |print: &Print| {
        let there = crate::train::checkpoint::steps(&folder).contains(&print.step);
        there.then_some(Which::Step(print.step))
    };
    let which = held
        .and_then(step)
        .map_or_else(|| self::which(config), Ok)?;
    let checkpoint = saved::chosen(&folder, which).map_err(as_key)?;
    let print = print(&checkpoint)?;
    if let Some(held) = held.filter(|held| held.sha256 != print.sha256) {
        return Err(wrong(
            &folder,
            format!(
                "is not the teacher that the run began with: the weights have the sha256 {} and had {} (step {}); a run \
                 cannot go on with another: put that one back, or start a new run",
                print.sha256, held.sha256, held.step
            ),
        ));
    }
    let device = &experiment.train.device;
    let opened = open::open_beside(&folder, Which::Step(print.step), device)?;
    if let Some((_, rule)) = misfit(experiment, &opened.experiment) {
        return Err(Error::usage(format!("[task] {rule}")));
    }
    fits(&folder, &opened, shape, tokenizers)?;
    Ok(Some(Teacher {
        pixels: fits::pixels(&opened.shape, shape),
        note: fits::note(&folder, &opened.shape, shape),
        task: opened.model.0,
        print,
    }))
}

/// The model with its teacher.
///
/// # Errors
/// As [`open`].
pub fn taught(
    experiment: &Experiment,
    places: &Places,
    data: &Data,
    held: Option<&Print>,
    model: Objective,
) -> Result<Taught> {
    let of_data = (&data.shape, &data.tokenizers);
    Ok(match open(experiment, places, of_data, held)? {
        Some(teacher) => Taught {
            model: Objective(model.0.taught_by(teacher.task).with_pixels(teacher.pixels)),
            print: Some(teacher.print),
            note: teacher.note,
        },
        None => Taught {
            model,
            print: None,
            note: None,
        },
    })
}

/// Contradictions between the keys of a student and of its teacher: the keys, and the rule.
pub(super) fn misfit(
    student: &Experiment,
    teacher: &Experiment,
) -> Option<(&'static [&'static str], String)> {
    let config = student.task.distillation()?;
    let (ours, theirs) = (config.of.uses(), teacher.task.uses());
    if ours != theirs {
        let rule = format!(
            "teacher was trained for the task {}, and of = {{ kind = \"{}\" }} is another",
            teacher.task.kind(),
            config.of.kind()
        );
        return Some((&["task.teacher", "task.of.kind"], rule));
    }
    if teacher.task.facts().has_towers() {
        let rule = "teacher reads the two texts of an example alone (towers), and a student reads them in one row: it has no \
                    hidden states for it; name a run without towers";
        return Some((&["task.teacher"], rule.into()));
    }
    let [ours, theirs] = [student, teacher].map(|experiment| experiment.model.d_output());
    (config.cosine > 0.0 && ours != theirs).then(|| {
        let rule = format!(
            "cosine = {:?} compares hidden states, which are {ours} wide here and {theirs} wide in the teacher: set cosine \
             = 0.0, or d_model = {theirs}",
            config.cosine
        );
        (&["task.cosine", "task.teacher"] as &[_], rule)
    })
}

/// The tokenizers of a run that teaches.
///
/// # Errors
/// As [`folder`]; a damaged tokenizer.
pub(super) fn tokenizers(experiment: &Experiment, places: &Places) -> Result<Tokenizers> {
    match folder(experiment, places)? {
        Some(folder) => saved::tokenizers(&folder),
        None => Ok(Tokenizers::default()),
    }
}

fn wrong(folder: &Path, reason: String) -> Error {
    Error::usage(format!(
        "[task] teacher: the run {} {reason}",
        folder.display()
    ))
}

/// The remedy of an error about a checkpoint as a key, where commands have a flag.
fn as_key(error: Error) -> Error {
    transfer::as_key_of("[task]", "teacher_checkpoint", error)
}
