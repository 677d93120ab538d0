//! `generate --best-of`: of several continuations the one with the largest reward (best of n; Stiennon et al. 2020, "Learning to
//! summarize from human feedback", arXiv:2009.01325, section 4.3).

use super::GenerateArgs;
use super::text::Text;
use crate::cli::classify::rewards;
use crate::cli::output;
use crate::data::Said;
use crate::error::{Error, Result};
use crate::experiment::open::{self, Opened};
use crate::experiment::saved::Which;
use crate::generate::decode::MOST;
use clap::Args;
use std::path::PathBuf;

/// The flags.
#[derive(Debug, Args)]
pub(super) struct BestOfArgs {
    /// Draw N continuations of each prompt, those of --samples N, and give the one with the largest reward (Stiennon et al. 2020).
    #[arg(long, value_name = "N", requires = "reward", conflicts_with_all = ["samples", "beam"])]
    best_of: Option<usize>,
    /// The run of rewards that tells the best of --best-of, at its best checkpoint.
    #[arg(long, value_name = "RUN", requires = "best_of", value_parser = crate::cli::flags::run_folder())]
    reward: Option<PathBuf>,
}

impl BestOfArgs {
    /// Whether the best of several draws is asked for.
    pub(super) fn is_given(&self) -> bool {
        self.best_of.is_some()
    }
}

/// The run that tells which of so many continuations is the best.
pub(super) struct BestOf {
    pub(super) count: usize,
    judge: Opened,
}

/// The fault of a number of continuations.
///
/// # Errors
/// A number out of range.
pub(super) fn check(args: &BestOfArgs) -> Result<()> {
    match args.best_of.filter(|count| !(2..=MOST).contains(count)) {
        Some(count) => Err(Error::usage(format!(
            "--best-of {count} is not between 2 and {MOST}"
        ))),
        None => Ok(()),
    }
}

/// What the flags ask for, if they ask for it; `temperature` is that of the draws.
///
/// # Errors
/// A run that cannot be opened or gives no rewards; a temperature at which all continuations are one.
pub(super) fn judged(args: &GenerateArgs, temperature: f64) -> Result<Option<BestOf>> {
    let (Some(count), Some(run)) = (args.best_of.best_of, &args.best_of.reward) else {
        return Ok(None);
    };
    if temperature == 0.0 {
        return Err(Error::usage(format!(
            "--best-of {count} has no effect: a temperature of 0 takes the likeliest token, and all continuations are one; give a \
             --temperature above 0"
        )));
    }
    let judge = open::open(run, Which::Best, args.device.as_deref())?;
    if judge.model.networks().reward.is_none() {
        return Err(Error::usage(format!(
            "--reward {}: the run was trained for {}, which gives no rewards; name one of [task] kind = \"reward\"",
            run.display(),
            judge.experiment.task.kind()
        )));
    }
    Ok(Some(BestOf { count, judge }))
}

impl BestOf {
    /// The continuation of a prompt with the largest reward, which is its score; the first of several. Those that the run of rewards
    /// cannot read, since they are longer than its texts, are left out.
    ///
    /// # Errors
    /// That of the first continuation where none can be read.
    pub(super) fn best<'a>(&self, prompt: &str, texts: Vec<Text<'a>>) -> Result<Option<Text<'a>>> {
        let Some(model) = self.judge.model.networks().reward else {
            return Ok(None);
        };
        let mut best: Option<(f32, Text)> = None;
        let mut unread = Vec::new();
        for mut text in texts {
            text.finish();
            let said = Said::Answer {
                prompt,
                answer: &text.whole,
            };
            match rewards::of(model, &self.judge, &said) {
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
