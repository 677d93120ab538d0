//! `generate --best-of`: selects the continuation with the highest reward among several (best of n; Stiennon et al. 2020,
//! "Learning to summarize from human feedback", arXiv:2009.01325, section 4.3).

use super::GenerateArgs;
use super::text::Text;
use crate::cli::classify::rewards;
use crate::cli::output;
use crate::data::RewardInput;
use crate::error::{Error, Result};
use crate::experiment::open::{self, OpenedRun};
use crate::experiment::run_contents::CheckpointChoice;
use crate::generate::decode::MAX_ROWS;
use clap::Args;
use std::path::PathBuf;

/// Flags of best-of-n sampling.
#[derive(Debug, Args)]
pub(super) struct BestOfArgs {
    /// Sample N continuations of each prompt, those of --samples N, and return the one with the highest reward (Stiennon et al.
    /// 2020).
    #[arg(long, value_name = "N", requires = "reward", conflicts_with_all = ["samples", "beam"])]
    best_of: Option<usize>,
    /// The run of rewards that selects the best of --best-of; its best checkpoint is used.
    #[arg(long, value_name = "RUN", requires = "best_of", value_parser = crate::cli::flags::run_folder())]
    reward: Option<PathBuf>,
}

impl BestOfArgs {
    /// Whether best-of-n sampling is requested.
    pub(super) fn is_given(&self) -> bool {
        self.best_of.is_some()
    }
}

/// The reward run that selects the best of `count` continuations.
pub(super) struct BestOf {
    pub(super) count: usize,
    judge: OpenedRun,
}

/// Checks the number of continuations.
///
/// # Errors
/// If the number is out of range.
pub(super) fn check(args: &BestOfArgs) -> Result<()> {
    match args.best_of.filter(|count| !(2..=MAX_ROWS).contains(count)) {
        Some(count) => Err(Error::usage(format!(
            "--best-of {count} is not between 2 and {MAX_ROWS}"
        ))),
        None => Ok(()),
    }
}

/// Opens the reward run if the flags ask for it; `temperature` is that of the sampling.
///
/// # Errors
/// If the run cannot be opened or gives no rewards; if the temperature makes all continuations equal.
pub(super) fn open_best_of(args: &GenerateArgs, temperature: f64) -> Result<Option<BestOf>> {
    let (Some(count), Some(run)) = (args.best_of.best_of, &args.best_of.reward) else {
        return Ok(None);
    };
    if temperature == 0.0 {
        return Err(Error::usage(format!(
            "--best-of {count} has no effect: at temperature 0 all continuations are the same; set --temperature above 0"
        )));
    }
    let judge = open::open(run, CheckpointChoice::Best, args.device.as_deref())?;
    if judge.model.networks().reward.is_none() {
        return Err(Error::usage(format!(
            "--reward {}: the run was trained for {}, which computes no rewards; give a run with [task] kind = \"reward\"",
            run.display(),
            judge.experiment.task.kind()
        )));
    }
    Ok(Some(BestOf { count, judge }))
}

impl BestOf {
    /// Returns the continuation of a prompt with the highest reward, which becomes its score; the first one of several.
    /// Continuations that the reward run cannot read, because they are too long for it, are left out.
    ///
    /// # Errors
    /// If none can be read, the error of the first continuation.
    pub(super) fn best<'a>(&self, prompt: &str, texts: Vec<Text<'a>>) -> Result<Option<Text<'a>>> {
        let Some(model) = self.judge.model.networks().reward else {
            return Ok(None);
        };
        let mut best: Option<(f32, Text)> = None;
        let mut unread = Vec::new();
        for mut text in texts {
            text.finish();
            let said = RewardInput::Answer {
                prompt,
                answer: &text.whole,
            };
            match rewards::reward_of(model, &self.judge, &said) {
                Ok(reward) if !reward.is_finite() => {
                    let why = format!("the reward of a continuation is {reward}");
                    unread.push(Error::run(why));
                }
                Ok(reward) if best.as_ref().is_none_or(|(largest, _)| reward > *largest) => {
                    text.score = Some(f64::from(reward));
                    best = Some((reward, text));
                }
                Ok(_) => {}
                Err(error) => unread.push(error),
            }
        }
        let count = unread.len();
        match (best, unread.into_iter().next()) {
            (None, Some(error)) => Err(error),
            (best, Some(error)) => {
                let all = self.count;
                output::note(format!(
                    "{count} of {all} continuations have no reward: {error}"
                ));
                Ok(best.map(|(_, text)| text))
            }
            (best, None) => Ok(best.map(|(_, text)| text)),
        }
    }
}
