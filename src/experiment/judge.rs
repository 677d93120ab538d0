//! Builds the judge that computes the rewards of completions and hands it to the task that generates them. A judge consists of
//! the run's tokenizer with the tokens that end a text and, if a run gives the rewards, of that run, opened for use. The task
//! knows no path.
//!
//! A run stores the SHA-256 of the weights that reward it (`reward.json`), like that of a teacher. It is resumed and evaluated
//! with the same weights, wherever they are by then.

use super::open::{self, OpenedRun};
use super::run_contents::{self, CheckpointChoice};
use super::teacher::{self, WeightsId};
use super::{Experiment, transfer};
use crate::data::{SearchPath, Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::task::grpo::{Judge, RewardRun, RunReward};
use crate::task::{Objective, Task};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::chat::Ending;
use crate::train::{run_dir, run_manifest};
use std::path::{Path, PathBuf};

/// The key of the reward run.
pub const PATH: &str = "task.reward.path";

/// Returns the stored identity of the weights that have rewarded the run in a folder so far.
///
/// # Errors
/// If the file is missing or damaged.
pub fn stored_weights(experiment: &Experiment, folder: &Path) -> Result<Option<WeightsId>> {
    let run = reward_config(experiment);
    run.map(|_| WeightsId::of_file(&folder.join(run_dir::REWARD)))
        .transpose()
}

/// Returns the stored identities of the weights that the run in a folder has learned from and been rewarded by so far.
///
/// # Errors
/// As [`teacher::stored_weights`] and [`stored_weights`].
pub fn all_stored_weights(
    experiment: &Experiment,
    folder: &Path,
) -> Result<[Option<WeightsId>; 2]> {
    Ok([
        teacher::stored_weights(experiment, folder)?,
        stored_weights(experiment, folder)?,
    ])
}

/// The settings of the reward run, if a run gives the rewards.
fn reward_config(experiment: &Experiment) -> Option<&RunReward> {
    experiment
        .task
        .grpo()
        .and_then(|config| config.reward.run())
}

/// Returns the folder of the reward run.
///
/// # Errors
/// If there is no run, or its files were changed.
pub fn folder(experiment: &Experiment, places: &SearchPath) -> Result<Option<PathBuf>> {
    reward_config(experiment)
        .map(|run| folder_of(run, places))
        .transpose()
}

/// Returns the weights that would reward a new run of the experiment now, and the folder of their run; `known` caches
/// checkpoints read before.
///
/// # Errors
/// As [`folder`]; if the checkpoint does not exist or is damaged.
pub fn current_weights(
    experiment: &Experiment,
    places: &SearchPath,
    known: &mut teacher::WeightsCache,
) -> Result<Option<(PathBuf, WeightsId)>> {
    let Some(run) = reward_config(experiment) else {
        return Ok(None);
    };
    let folder = folder_of(run, places)?;
    let place = (folder.clone(), run.checkpoint.clone());
    if let Some(found) = known.get(&place) {
        return Ok(Some((folder, found.clone())));
    }
    let found = teacher::weights_id(&run_contents::find_checkpoint(&folder, which(run)?)?)?;
    known.insert(place, found.clone());
    Ok(Some((folder, found)))
}

fn folder_of(run: &RunReward, places: &SearchPath) -> Result<PathBuf> {
    let folder = places.anchored(&run.path);
    run_dir::require_run(&folder).map_err(|error| {
        Error::usage(format!(
            "[task.reward] path = {:?}: {error}; train that run first, or give the path where it is now",
            run.path
        ))
    })?;
    run_manifest::verify(&folder)?;
    Ok(folder)
}

/// Attaches the judge to a model that learns from rewards, and returns the weights of the reward run. `held` are the weights
/// that have rewarded the model so far.
///
/// # Errors
/// As [`build`].
pub fn with_judge(
    experiment: &Experiment,
    places: &SearchPath,
    of_data: (&Shape, &Tokenizers),
    held: Option<&WeightsId>,
    model: Objective,
) -> Result<(Objective, Option<WeightsId>)> {
    Ok(match build(experiment, places, of_data, held)? {
        Some((judge, print)) => (Objective(model.0.with_judge(judge)), print),
        None => (model, None),
    })
}

/// Attaches the judge to the model of an opened run; `folder` is the run's folder.
///
/// # Errors
/// As [`build`] and [`stored_weights`].
pub fn attach_judge(opened: &mut OpenedRun, folder: &Path) -> Result<()> {
    let held = stored_weights(&opened.experiment, folder)?;
    let of_data = (&opened.shape, &opened.tokenizers);
    if let Some((judge, _)) = build(&opened.experiment, &opened.places, of_data, held.as_ref())? {
        opened.model = Objective(opened.model.0.clone().with_judge(judge));
    }
    Ok(())
}

/// Builds the judge of an experiment whose data has this shape; `None` if the task uses no rewards.
///
/// # Errors
/// If the data has no tokenizer, or its texts have no end token; if the reward run cannot be opened, gives no rewards, has
/// another tokenizer, or reads another kind of text or shorter texts; if its weights are not those of `held`.
pub fn build(
    experiment: &Experiment,
    places: &SearchPath,
    (shape, tokenizers): (&Shape, &Tokenizers),
    held: Option<&WeightsId>,
) -> Result<Option<(Judge, Option<WeightsId>)>> {
    let Some(config) = experiment.task.grpo() else {
        return Ok(None);
    };
    let Some(tokenizer) = &tokenizers.text else {
        return Err(Error::usage(
            "[task] reward needs texts, and the tokens of the data do not stand for text: use data with a tokenizer",
        ));
    };
    let ending = tokenizers.chat.as_ref().map(|chat| chat.ending(tokenizer));
    let ending = ending.and_then(Result::ok);
    let own = &experiment.decode.sampling.end;
    if let (Some(Ending::Text(text)), true) = (&ending, own.is_empty()) {
        return Err(Error::usage(format!(
            "[task] kind = \"grpo\" needs a token that ends a completion, but the chat template ends an answer with {text:?}, \
             which contains no special token of the tokenizer: set [decode.sampling] end to the tokens that end a completion, \
             or use a template with a special token there"
        )));
    }
    let ends = ends(own, tokenizer, ending.as_ref());
    if ends.is_empty() {
        return Err(Error::usage(
            "[task] kind = \"grpo\" needs a token that ends a completion, and the tokenizer has none: set [tokenizer] end_of_text, or \
             [decode.sampling] end",
        ));
    }
    let run = config.reward.run();
    let run = run.map(|run| open_reward_run(experiment, places, run, (shape, tokenizers), held));
    let (run, print) = run.transpose()?.unzip();
    Ok(Some((Judge::new(tokenizer.clone(), ends, run), print)))
}

/// The tokens that end a completion: those of `[decode.sampling]`, the end-of-text token, and the token that a chat template
/// writes after an answer.
fn ends(own: &[u32], tokenizer: &Tokenizer, ending: Option<&Ending>) -> Vec<u32> {
    let mut ends = own.to_vec();
    ends.extend(tokenizer.end_of_text());
    if let Some(Ending::Token(end)) = ending {
        ends.push(*end);
    }
    ends
}

/// The tokens that a chat template writes after an answer; empty without a template.
fn answer_suffix(tokenizers: &Tokenizers) -> Result<Vec<u32>> {
    let both = tokenizers.chat.as_ref().zip(tokenizers.text.as_ref());
    let closing = both.map(|(chat, tokenizer)| chat.closing(tokenizer));
    Ok(closing.transpose()?.unwrap_or_default())
}

fn wrong(folder: &Path, reason: &str) -> Error {
    let folder = folder.display();
    Error::usage(format!("[task.reward] path: the run {folder} {reason}"))
}

/// Opens the reward run for use, and returns it with the identity of its weights.
fn open_reward_run(
    experiment: &Experiment,
    places: &SearchPath,
    run: &RunReward,
    of_data: (&Shape, &Tokenizers),
    held: Option<&WeightsId>,
) -> Result<(RewardRun, WeightsId)> {
    let folder = folder_of(run, places)?;
    let there = |print: &&WeightsId| crate::train::checkpoint::steps(&folder).contains(&print.step);
    let which = match held.filter(there) {
        Some(print) => CheckpointChoice::Step(print.step),
        None => which(run)?,
    };
    let as_key = |error| transfer::as_key_of("[task.reward]", "checkpoint", error);
    let checkpoint = run_contents::find_checkpoint(&folder, which).map_err(as_key)?;
    let print = teacher::weights_id(&checkpoint)?;
    if let Some(held) = held.filter(|held| held.sha256 != print.sha256) {
        return Err(wrong(
            &folder,
            &format!(
                "is not the one that the run began with: its weights have the sha256 {} instead of {} (step {}); restore that \
                 run, or start a new one",
                print.sha256, held.sha256, held.step
            ),
        ));
    }
    let device = &experiment.train.device;
    let opened = open::open_companion(&folder, CheckpointChoice::Step(print.step), device)?;
    let closing = answer_suffix(of_data.1)?;
    require_compatible(run, &folder, &opened, of_data, &closing)?;
    let OpenedRun {
        experiment,
        model,
        tokenizers,
        shape,
        ..
    } = opened;
    let rewards = RewardRun::new(model.0, experiment.data, shape, tokenizers, run.too_long);
    Ok((rewards.with_closing(closing), print))
}

/// The configured checkpoint.
fn which(run: &RunReward) -> Result<CheckpointChoice> {
    let text = run.checkpoint.as_deref().unwrap_or("best");
    let fault = |rule: String| {
        Error::usage(format!(
            "[task.reward] checkpoint = {text:?} is not a checkpoint; {rule}"
        ))
    };
    match text.parse().map_err(fault)? {
        CheckpointChoice::Average(_) => Err(fault(
            "use best, latest or the number of a step: rewards come from one checkpoint".into(),
        )),
        which => Ok(which),
    }
}

/// Returns an error if a run cannot reward the texts of the data.
fn require_compatible(
    run: &RunReward,
    folder: &Path,
    opened: &OpenedRun,
    (shape, tokenizers): (&Shape, &Tokenizers),
    closing: &[u32],
) -> Result<()> {
    if opened.model.0.networks().reward.is_none() {
        let kind = opened.experiment.task.kind();
        let reason = format!(
            "was trained for {kind}, which computes no rewards; name a run with [task] kind = \"reward\""
        );
        return Err(wrong(folder, &reason));
    }
    if !teacher::same_tokens(&opened.tokenizers, tokenizers) {
        let reason = "has another tokenizer, so it reads the same texts differently; name a run that began from the same tokenizer";
        return Err(wrong(folder, reason));
    }
    let data = &opened.experiment.data;
    let template = data.template(&opened.shape, &opened.tokenizers);
    if template.is_some() != tokenizers.chat.is_some() {
        let [theirs, ours] = match template {
            Some(_) => ["conversations", "plain texts"],
            None => ["plain texts", "conversations"],
        };
        let reason = format!("reads {theirs}, but the prompts of the data are {ours}");
        return Err(wrong(folder, &reason));
    }
    if template != tokenizers.chat.as_ref() {
        let reason = "has another chat template, so it reads other texts; name a run with the chat template of the data";
        return Err(wrong(folder, reason));
    }
    // A completion has one token more than the policy reads.
    let around = tokenizers
        .text
        .as_ref()
        .and_then(|t| t.special_token_layout());
    let around = around.map_or(0, |edges| edges.len(false));
    let longest = shape.context + 1 + around.max(closing.len().saturating_sub(1));
    let context = data.context();
    if longest > context && run.too_long.is_none() {
        let reason = format!(
            "reads {context} tokens, but a prompt with its completion may have {longest}: set too_long, the reward of longer \
             texts, or reduce [data] context"
        );
        return Err(wrong(folder, &reason));
    }
    Ok(())
}
