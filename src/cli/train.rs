//! `formwork train` and `formwork resume`.

use super::output;
use super::ranks::{self, Exchange};
use crate::collective::Ranks;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::{self, open, run};
use crate::report::render::terminal::{duration, number};
use crate::stop;
use crate::train::job::{Outcome, Report, Stopped};
use crate::train::metrics::higher_is_better;
use crate::train::run_dir::RESOLVED;
use crate::train::view::View;
use clap::Args;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `formwork train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The experiment file.
    file: PathBuf,
    /// Override a key: --set optimizer.lr=3e-4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The run folder; checkpoints/NAME when absent.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Go on if the run folder holds a checkpoint.
    #[arg(long, conflicts_with = "fresh")]
    resume: bool,
    /// Delete the run folder first.
    #[arg(long)]
    fresh: bool,
    /// Save and end when standard input closes: the process that holds it is gone.
    #[arg(long, hide = true)]
    while_input_open: bool,
    #[command(flatten)]
    how: How,
}

/// `formwork resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run folder.
    run: PathBuf,
    /// Override a key of the run's experiment: --set train.steps=10000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Go on though the files of its data changed since it began.
    #[arg(long)]
    other_data: bool,
    #[command(flatten)]
    how: How,
}

/// Where a run computes and how it is followed.
#[derive(Debug, Args)]
struct How {
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::of_flag)]
    device: Option<String>,
    /// Moves gradients between the processes of one run.
    #[arg(long, value_enum, default_value_t)]
    exchange: Exchange,
    /// One line a report, also in a terminal.
    #[arg(long, conflicts_with = "quiet")]
    plain: bool,
    /// Nothing but errors and the summary.
    #[arg(long)]
    quiet: bool,
}

impl How {
    fn sets(&self, mut sets: Vec<String>) -> Vec<String> {
        if let Some(device) = &self.device {
            sets.push(format!("train.device={device}"));
        }
        sets
    }

    fn view(&self, ranks: &Ranks) -> View {
        if ranks.are_many() || self.plain || self.quiet || !std::io::stdout().is_terminal() {
            View::Plain
        } else {
            View::Interactive
        }
    }

    fn options(&self, ranks: &Ranks) -> run::Options {
        let view = self.view(ranks);
        let prints = view == View::Plain && !self.quiet && ranks.is_first();
        run::Options {
            view,
            report: Box::new(move |report| {
                if prints {
                    output::note(report_line(report));
                }
            }),
            sample: Box::new(move |step, text| {
                if prints {
                    output::note(format!("sample at step {step}: {text}"));
                }
            }),
            notice: match ranks.is_first() {
                true => |text| output::note(text),
                false => |_| (),
            },
            other_data: false,
            ranks: ranks.clone(),
        }
    }
}

/// Runs `formwork train`.
///
/// # Errors
/// Faults of the experiment, a run folder that is taken, and whatever ends the run.
pub fn train(args: TrainArgs) -> Result<()> {
    ranks::together(args.how.exchange, |ranks| train_among(&args, ranks))
}

fn train_among(args: &TrainArgs, ranks: &Ranks) -> Result<()> {
    let loaded = experiment::load(&args.file, &args.how.sets(args.sets.clone()))?;
    experiment::check(&loaded)?;
    let folder = args
        .run
        .clone()
        .unwrap_or_else(|| run::default_folder(&loaded.experiment.name));
    let start = match (args.resume, args.fresh) {
        (true, _) => run::Start::ResumeOrNew,
        (_, true) => run::Start::Fresh,
        _ => run::Start::New,
    };
    if args.while_input_open {
        stop::with_input();
    }
    if !args.how.quiet && ranks.is_first() {
        output::note(format!("{} → {}", args.file.display(), folder.display()));
        ranks::describe(ranks);
    }
    let began = Instant::now();
    let outcome = run::train(&loaded, &folder, start, args.how.options(ranks))?;
    ended(&folder, &outcome, began, &args.how, ranks)
}

/// Runs `formwork resume`.
///
/// # Errors
/// No run in the folder, no whole checkpoint, and whatever ends the run.
pub fn resume(args: ResumeArgs) -> Result<()> {
    ranks::together(args.how.exchange, |ranks| {
        let options = run::Options {
            other_data: args.other_data,
            ..args.how.options(ranks)
        };
        if !args.how.quiet {
            ranks::describe(ranks);
        }
        let began = Instant::now();
        let outcome = run::resume(&args.run, &args.how.sets(args.sets.clone()), options)?;
        ended(&args.run, &outcome, began, &args.how, ranks)
    })
}

/// What the first rank tells at the end of a run.
fn ended(folder: &Path, outcome: &Outcome, began: Instant, how: &How, ranks: &Ranks) -> Result<()> {
    if !ranks.is_first() {
        return Ok(());
    }
    if !how.quiet {
        ranks::tell_traffic(ranks, began.elapsed().as_secs_f64());
    }
    summary(folder, outcome)
}

/// One report as a line: what a person follows in a pipe.
fn report_line(report: &Report) -> String {
    let mut parts = vec![
        format!("step {:>6}/{}", report.step, report.steps),
        format!("{:5}", report.split),
        format!("loss {:.4}", report.loss),
    ];
    for (name, value) in &report.metrics {
        parts.push(format!("{name} {}", number(*value)));
    }
    if let Some(lr) = report.lr {
        parts.push(format!("lr {lr:.2e}"));
    }
    if let Some(norm) = report.grad_norm {
        parts.push(format!("grad_norm {norm:.3}"));
    }
    if let Some(speed) = report.items_per_s {
        parts.push(format!("{} {}/s", number(speed), report.unit));
    }
    if let Some(part) = &report.part {
        parts.push(format!("({part})"));
    }
    if let Some(left) = report.left_s {
        parts.push(format!("{} left", duration(left)));
    }
    parts.join("  ")
}

/// The end of a run: what came out and what to do next.
fn summary(folder: &Path, outcome: &Outcome) -> Result<()> {
    let run = folder.display();
    let ended = match outcome.stopped {
        Stopped::Done => "done",
        Stopped::Early => "stopped early: evaluations no longer improve",
        Stopped::Interrupted => return Err(Error::run("the run was interrupted")),
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
        let metrics: Vec<String> = scores
            .metrics
            .iter()
            .map(|(name, value)| format!("{name} {}", number(*value)))
            .collect();
        output::line(format!(
            "valid loss {:.4}  {}",
            scores.loss,
            metrics.join("  ")
        ))?;
    }
    let again = experiment::load(&folder.join(RESOLVED), &[])?.experiment;
    if let Some((step, value)) = outcome.best {
        output::line(match &again.train.best_by {
            None => {
                let part = match again.train.eval_batches {
                    Some(n) if outcome.drawn_part => format!(", of {n} batches drawn at random"),
                    Some(n) => format!(", of the first {n} batches"),
                    None => String::new(),
                };
                format!("best valid loss {value:.4} at step {step}{part}")
            }
            // Where higher is better, evaluations are compared by the value turned round.
            Some(metric) => {
                let value = match higher_is_better(metric) {
                    true => -value,
                    false => value,
                };
                format!("best valid {metric} {} at step {step}", number(value))
            }
        })?;
    }
    let mut next = Vec::new();
    next.extend(open::suggested_use(&again, &run));
    next.push(format!("formwork compare {run} OTHER_RUN"));
    for (i, command) in next.iter().enumerate() {
        let word = if i == 0 { "next:" } else { "     " };
        output::line(format!("{word} {command}"))?;
    }
    Ok(())
}
