//! `formwork train` and `formwork resume`.

mod path_checks;

use super::flags::Keys;
use super::line_printer::{LineInterval, LinePrinter};
use super::live::{self, Live};
use super::output;
use super::ranks::{self, Exchange};
use crate::ablation::sources;
use crate::collective::Ranks;
use crate::device::DeviceName;
use crate::error::{Error, Result, shell_word};
use crate::experiment::data_files::ChangedFiles;
use crate::experiment::run::{Follower, NoFollower};
use crate::experiment::{self, open, run};
use crate::report::read::run::read as read_run;
use crate::report::render::terminal::{duration, loss, number};
use crate::stop;
use crate::train::config::TrainConfig;
use crate::train::evaluation::Scores;
use crate::train::job::{Outcome, StopReason};
use crate::train::run_dir::RESOLVED;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `formwork train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The experiment file.
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Seed of all random numbers, as --set seed=N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// The run folder; checkpoints/NAME when absent.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Resume if the run folder holds a checkpoint.
    #[arg(long, conflicts_with = "fresh")]
    resume: bool,
    /// Delete the run folder first.
    #[arg(long)]
    fresh: bool,
    /// Take two steps, evaluate, write all files of a run, and delete it again.
    #[arg(long, conflicts_with_all = ["resume", "fresh", "pause_at"])]
    smoke: bool,
    /// Save and end when standard input closes, because the process that holds it is gone.
    #[arg(long, hide = true)]
    while_input_open: bool,
    #[command(flatten)]
    how: ExecutionArgs,
}

/// `formwork resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Override a key of the run's experiment: --set train.steps=10000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Continue although data files have changed since the run began.
    #[arg(long)]
    other_data: bool,
    #[command(flatten)]
    how: ExecutionArgs,
}

/// Where a run computes and how its progress is shown.
#[derive(Debug, Args)]
struct ExecutionArgs {
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Library that exchanges gradients between the processes of one run.
    #[arg(long, value_enum, default_value_t)]
    exchange: Exchange,
    /// Save and end after this step; `resume` continues as if it had not ended.
    #[arg(long, value_name = "STEP", value_parser = clap::value_parser!(u64).range(1..))]
    pause_at: Option<u64>,
    /// Print lines instead of the live view.
    #[arg(long, conflicts_with = "quiet")]
    plain: bool,
    /// Minimum seconds between two lines about training; 0 prints every line of the journal.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, conflicts_with = "quiet")]
    every: f64,
    /// Print only errors and the summary.
    #[arg(long)]
    quiet: bool,
}

impl ExecutionArgs {
    fn sets(&self, mut sets: Vec<String>) -> Vec<String> {
        if let Some(device) = &self.device {
            sets.push(format!("train.device={device}"));
        }
        sets
    }

    /// The live view in a terminal, lines elsewhere, nothing with `--quiet`.
    fn follower(&self, ranks: &Ranks) -> Box<dyn Follower> {
        let pace = LineInterval::new(Duration::from_secs_f64(self.every));
        if self.quiet || !ranks.is_first() {
            Box::new(NoFollower)
        } else if self.plain || ranks.is_distributed() || !live::is_available() {
            Box::new(LinePrinter::new(pace))
        } else {
            Box::new(Live::new(pace))
        }
    }

    fn options(&self, ranks: &Ranks) -> run::Options {
        run::Options {
            follower: self.follower(ranks),
            notice: match ranks.is_first() {
                true => |text| output::note(text),
                false => |_| (),
            },
            pause_at: self.pause_at,
            changed_files: ChangedFiles::of_flag(false),
            ranks: ranks.clone(),
        }
    }
}

/// Parses a number of seconds.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match (0.0..=86_400.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("0 to 86400".into()),
    }
}

/// Runs `formwork train`.
///
/// # Errors
/// If the experiment is invalid, the run folder is taken, or training fails.
pub fn train(args: TrainArgs) -> Result<()> {
    ranks::run_on_ranks(args.how.exchange, |ranks| train_on_ranks(&args, ranks))
}

fn train_on_ranks(args: &TrainArgs, ranks: &Ranks) -> Result<()> {
    path_checks::require_no_run(&args.file)?;
    let seed = args.seed.map(|seed| format!("seed={seed}"));
    let sets = args.keys.sets().into_iter().chain(seed).collect();
    let mut loaded = experiment::load(&args.file, &args.how.sets(sets))?;
    experiment::check(&loaded)?;
    let name = match args.smoke {
        // No experiment's name begins with a dot, so no real run is replaced.
        true => format!(".smoke-{}", loaded.experiment.name),
        false => loaded.experiment.name.clone(),
    };
    let folder = args
        .run
        .clone()
        .unwrap_or_else(|| run::default_folder(&name));
    let start = match (args.resume, args.fresh) {
        (true, _) => run::Start::ResumeOrNew,
        (_, true) => run::Start::Fresh,
        // Left over from a smoke test that was killed.
        _ if args.smoke && args.run.is_none() => run::Start::Fresh,
        _ => run::Start::New,
    };
    if args.smoke {
        shorten(&mut loaded.experiment.train);
    }
    if args.while_input_open {
        stop::stop_at_end_of_input();
    }
    if !args.how.quiet && ranks.is_first() {
        output::note(format!("{} → {}", args.file.display(), folder.display()));
        for note in experiment::dropped_keys::notes(&loaded, &args.keys.sets()) {
            output::note(note);
        }
        ranks::describe(ranks);
    }
    // A smoke test deletes its run, and also the parent folder if it created that.
    let parent = folder.parent().filter(|p| args.smoke && !p.exists());
    let parent = parent.map(Path::to_path_buf);
    let began = Instant::now();
    let mut options = args.how.options(ranks);
    if args.while_input_open {
        // The process trains a cell of a sweep, whose errors suggest other options than those of a run.
        options.changed_files = ChangedFiles::Refuse(sources::ADVICE);
    }
    let outcome = run::train(&loaded, &folder, start, options);
    let outcome = outcome.map_err(|error| {
        if args.smoke && args.run.is_none() && ranks.is_first() {
            // The partial run is useless, and the error is reported.
            let _ = std::fs::remove_dir_all(&folder);
            let _ = parent.as_ref().map(std::fs::remove_dir);
        }
        experiment::locate_error(&loaded, error)
    })?;
    if args.smoke {
        return finish_smoke_test((&folder, parent.as_deref()), &outcome, ranks);
    }
    print_end(&folder, &outcome, began, &args.how, ranks)
}

/// Steps of a smoke test: the second one uses the optimizer state that the first one left.
const SMOKE_STEPS: u64 = 2;

/// Applies the settings of a smoke test. Steps, evaluations and checkpoints do their full work.
fn shorten(train: &mut TrainConfig) {
    (train.steps, train.epochs) = (SMOKE_STEPS, None);
    train.log_every = 1;
}

/// Ends a smoke test: deletes its folder, and the parent folder that it created.
fn finish_smoke_test(
    (folder, parent): (&Path, Option<&Path>),
    outcome: &Outcome,
    ranks: &Ranks,
) -> Result<()> {
    if !ranks.is_first() {
        return Ok(());
    }
    std::fs::remove_dir_all(folder).map_err(Error::io("delete", folder))?;
    // It stays if it holds other runs.
    let _ = parent.map(std::fs::remove_dir);
    let scores = outcome.last.as_ref().map(scores_line);
    output::line(format!(
        "two steps, an evaluation and a checkpoint succeeded in {}; {} is deleted",
        duration(outcome.elapsed_s),
        folder.display()
    ))?;
    scores.map_or(Ok(()), output::line)
}

/// Runs `formwork resume`.
///
/// # Errors
/// If there is no run in the folder, it has no complete checkpoint, or training fails.
pub fn resume(args: ResumeArgs) -> Result<()> {
    path_checks::require_no_experiment(&args.run)?;
    ranks::run_on_ranks(args.how.exchange, |ranks| {
        let options = run::Options {
            changed_files: ChangedFiles::of_flag(args.other_data),
            ..args.how.options(ranks)
        };
        if !args.how.quiet {
            ranks::describe(ranks);
        }
        let began = Instant::now();
        let outcome = run::resume(&args.run, &args.how.sets(args.sets.clone()), options)?;
        print_end(&args.run, &outcome, began, &args.how, ranks)
    })
}

/// Prints the summary at the end of a run, on the first rank.
fn print_end(
    folder: &Path,
    outcome: &Outcome,
    began: Instant,
    how: &ExecutionArgs,
    ranks: &Ranks,
) -> Result<()> {
    if !ranks.is_first() {
        return Ok(());
    }
    if !how.quiet {
        ranks::note_traffic(ranks, began.elapsed().as_secs_f64());
    }
    summary(folder, outcome)
}

/// Formats the scores of the validation split.
fn scores_line(scores: &Scores) -> String {
    let metrics = scores.metrics.iter();
    let metrics = metrics.map(|(name, value)| format!("{name} {}", number(*value)));
    let metrics: Vec<String> = metrics.collect();
    format!("valid loss {}  {}", loss(scores.loss), metrics.join("  "))
}

/// Describes the part of the validation split that evaluations during training read, if they did not read all of it.
fn validation_part(folder: &Path) -> Option<String> {
    let journal = read_run(folder).ok()?.journal;
    let words = journal
        .part_description("valid")
        .unwrap_or("of part of the split");
    journal.is_partial("valid").then(|| words.to_owned())
}

/// Prints how the run ended, its results, and suggestions for what to do next.
fn summary(folder: &Path, outcome: &Outcome) -> Result<()> {
    let run = shell_word(folder);
    let ended = match outcome.stopped {
        StopReason::Done => "done",
        StopReason::NoImprovement => "stopped early: evaluations no longer improve",
        StopReason::Paused => {
            return output::line(format!(
                "paused after step {} in {}; continue with: formwork resume {run}",
                outcome.step,
                duration(outcome.elapsed_s)
            ));
        }
        StopReason::Interrupted => return Err(Error::run("the run was interrupted")),
    };
    output::line(format!(
        "{ended} after {} steps in {}",
        outcome.step,
        duration(outcome.elapsed_s)
    ))?;
    match outcome.skipped {
        0 => {}
        1 => output::line("1 step was skipped")?,
        n => output::line(format!("{n} steps were skipped"))?,
    }
    if let Some(scores) = &outcome.last {
        output::line(scores_line(scores))?;
    }
    let again = experiment::load(&folder.join(RESOLVED), &[])?.experiment;
    if let Some((step, value)) = outcome.best {
        output::line(match &again.train.best_by {
            None => {
                let part =
                    validation_part(folder).map_or(String::new(), |part| format!(" ({part})"));
                format!("best valid loss {} at step {step}{part}", loss(value))
            }
            Some(metric) => {
                let value = again.train.best_value(value);
                format!("best valid {metric} {} at step {step}", number(value))
            }
        })?;
    }
    let mut next = Vec::new();
    next.extend(open::suggested_use(&again, folder));
    next.push(format!("formwork compare {run} OTHER_RUN"));
    for (i, command) in next.iter().enumerate() {
        let word = if i == 0 { "next:" } else { "     " };
        output::line(format!("{word} {command}"))?;
    }
    Ok(())
}
