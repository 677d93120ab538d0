//! `formwork sweep`: an ablation from its file to its table.

use super::output;
use crate::ablation::ledger::{Ledger, Standing, cells};
use crate::ablation::planner::{self, Sweep};
use crate::ablation::runner::{self, Event, Options};
use crate::ablation::slurm::{self, Array};
use crate::ablation::{cell, folders};
use crate::error::{Error, Result};
use crate::experiment::run::default_folder;
use crate::report::run::read;
use crate::report::sweep::{EndState, Ending, PlannedArm, SweepFolder, SweepPlan};
use crate::report::terminal::{count, duration, number, table};
use crate::train::signal::Stop;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `formwork sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// An experiment with [ablation], or the folder of a sweep to go on with
    #[arg(value_name = "FILE.toml|SWEEP")]
    file: PathBuf,
    /// Override a key of the file: --set train.steps=100
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The sweep's folder; checkpoints/NAME when absent
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Cells that are trained at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Threads of each; the machine's cores shared out when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Show arms, costs and time, and train nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not time a few steps of each arm for the dry run
    #[arg(long, requires = "dry_run")]
    no_probe: bool,
    /// Train cells that failed once more
    #[arg(long)]
    retry: bool,
    /// Delete the sweep's folder first
    #[arg(long)]
    fresh: bool,
    /// Do not stay for cells that other processes train
    #[arg(long)]
    no_wait: bool,
    /// Seconds without a heartbeat after which a process on another machine counts as dead
    #[arg(long, value_name = "SECONDS", default_value_t = 90.0)]
    lease: f64,
    /// Submit a Slurm job array of N tasks instead, which share the cells; with --dry-run its script is only shown
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    slurm: Option<u16>,
    /// An option for sbatch: --slurm-option=--partition=NAME
    #[arg(long, value_name = "OPTION", requires = "slurm")]
    slurm_option: Vec<String>,
}

/// Runs `formwork sweep`.
///
/// # Errors
/// Faults of the file or of any arm; a folder that cannot be kept; cells that failed.
pub fn run(args: SweepArgs) -> Result<()> {
    if !(args.lease >= 1.0 && args.lease <= 86_400.0) {
        return Err(Error::usage("--lease must be between 1 and 86400 seconds"));
    }
    let lease = Duration::from_secs_f64(args.lease);
    let (folder, sweep) = asked(&args)?;
    if args.fresh && !args.dry_run {
        clear(&folder, lease)?;
    }
    let (plan, files) = match &sweep {
        Some(sweep) => folders::planned(sweep, &folder)?,
        None => (SweepFolder::read(&folder)?.plan, Vec::new()),
    };
    let sweep_folder = SweepFolder {
        path: folder.clone(),
        plan,
    };
    if args.dry_run {
        return dry_run(&args, &sweep_folder, sweep.as_ref());
    }
    let gone = folders::earlier(&folder)?.map_or(0, |before| {
        let kept = |folder: &String| sweep_folder.plan.arms.iter().any(|a| a.folder == *folder);
        before.arms.iter().filter(|a| !kept(&a.folder)).count()
    });
    if gone > 0 {
        output::note(format!(
            "{gone} arms of the sweep are not in the file any more; their runs stay in {}/cells",
            folder.display()
        ));
    }
    let sweep_folder = folders::write(&folder, &sweep_folder.plan, &files)?;
    let ledger = Ledger::open(&folder, lease)?;
    if args.retry {
        retry(&sweep_folder, &ledger)?;
    }
    if args.slurm.is_some() {
        let script = slurm::write(&folder, &array(&args))?;
        return output::line(slurm::submit(&script)?);
    }
    let options = Options {
        jobs: args.jobs.into(),
        threads: threads(&args),
        lease,
        wait: !args.no_wait,
    };
    output::note(format!(
        "{}: {}",
        folder.display(),
        summary(&sweep_folder.plan)
    ));
    let stop = Stop::on_signals()?;
    let mut follow = |event: Event| follow(&sweep_folder, &event);
    runner::work(&sweep_folder, ledger, options, &stop, &mut follow)?;
    finish(&sweep_folder)
}

/// The sweep's folder, and the sweep as its file describes it; none when the folder itself was given.
fn asked(args: &SweepArgs) -> Result<(PathBuf, Option<Sweep>)> {
    if SweepFolder::is_one(&args.file) {
        let given = [
            (!args.sets.is_empty(), "--set"),
            (args.run.is_some(), "--run"),
            (args.fresh, "--fresh"),
        ];
        if let Some((_, flag)) = given.iter().find(|(given, _)| *given) {
            return Err(Error::usage(format!(
                "{flag} needs the sweep's file; {} is its folder, whose plan is settled",
                args.file.display()
            )));
        }
        return Ok((args.file.clone(), None));
    }
    if args.file.is_dir() {
        return Err(Error::usage(format!(
            "{} is a folder, but no sweep is in it (it has no sweep.json)",
            args.file.display()
        )));
    }
    let name = || -> Result<PathBuf> {
        let loaded = crate::experiment::load(&args.file, &args.sets)?;
        Ok(default_folder(&loaded.experiment.name))
    };
    let folder = args.run.clone().map_or_else(name, Ok)?;
    let earlier = match args.fresh {
        true => None,
        false => folders::earlier(&folder)?,
    };
    let sweep = planner::prepare(&args.file, &args.sets, earlier.as_ref())?;
    Ok((folder, Some(sweep)))
}

/// Threads of each process: the cores, shared out.
fn threads(args: &SweepArgs) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match args.threads {
        Some(n) => n.into(),
        None => (cores / usize::from(args.jobs)).max(1),
    }
}

fn array(args: &SweepArgs) -> Array {
    Array {
        tasks: args.slurm.unwrap_or(1).into(),
        cpus: args.threads.unwrap_or(1).into(),
        options: args.slurm_option.clone(),
    }
}

/// Deletes a sweep's folder, unless somebody trains in it.
fn clear(folder: &Path, lease: Duration) -> Result<()> {
    let Some(plan) = folders::earlier(folder)? else {
        return Ok(());
    };
    let sweep = SweepFolder {
        path: folder.to_path_buf(),
        plan,
    };
    let names: Vec<String> = cells(&sweep).into_iter().map(|(_, _, name)| name).collect();
    let standings = Ledger::open(folder, lease)?.standings(&names)?;
    let held = names.iter().zip(standings).find_map(|(name, s)| match s {
        Standing::Held(holder) => Some((name, holder)),
        Standing::Open | Standing::Ended => None,
    });
    if let Some((name, holder)) = held {
        return Err(Error::usage(format!(
            "--fresh would delete {name}, which process {} on {} trains",
            holder.pid, holder.host
        )));
    }
    std::fs::remove_dir_all(folder).map_err(Error::io("delete", folder))
}

/// Opens the cells that failed.
fn retry(sweep: &SweepFolder, ledger: &Ledger) -> Result<()> {
    for (arm, seed, name) in cells(sweep) {
        let ending = sweep.ending(&sweep.plan.arms[arm], seed)?;
        if ending.is_some_and(|e| e.state == EndState::Failed) {
            ledger.reopen(&name)?;
        }
    }
    Ok(())
}

/// `3 arms × 5 seeds`.
fn summary(plan: &SweepPlan) -> String {
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (arms, seeds) = (plan.arms.len(), plan.seeds.len());
    format!("{} × {}", many(arms, "arm"), many(seeds, "seed"))
}

/// One line for what happened to a cell.
fn follow(sweep: &SweepFolder, event: &Event) {
    output::note(match event {
        Event::Began(cell, 1) => format!("{cell}: begun"),
        Event::Began(cell, attempt) => format!("{cell}: gone on with, attempt {attempt}"),
        Event::Ended(cell, ending) => {
            let is_over = |(arm, seed): &(&PlannedArm, u64)| sweep.ending_file(arm, *seed).exists();
            let (over, all) = (sweep.cells().filter(is_over).count(), sweep.cells().count());
            format!("{cell}: {} ({over} of {all})", ended(sweep, cell, ending))
        }
        Event::Killed(cell, why) => format!("{cell}: its process was killed ({why})"),
        Event::Lost(cell) => format!("{cell}: taken over by another process"),
        Event::Waiting(n) => format!("waiting for {n} cells of other processes"),
    });
}

fn ended(sweep: &SweepFolder, cell: &str, ending: &Ending) -> String {
    let metric = &sweep.plan.metric;
    let score = || {
        let all = cells(sweep);
        let (arm, seed, _) = all.iter().find(|(_, _, name)| name == cell)?;
        let run = read(&sweep.run(&sweep.plan.arms[*arm], *seed)).ok()?;
        let value = run.scores.get("valid")?.get(metric).copied()?;
        let time = run
            .elapsed_s()
            .map_or(String::new(), |s| format!(" in {}", duration(s)));
        Some(format!("{metric} {}{time}", number(value)))
    };
    match ending.state {
        EndState::Done => score().map_or("done".into(), |score| format!("done, {score}")),
        EndState::Diverged => format!("diverged: {}", ending.reason),
        EndState::Failed => format!("failed: {}", ending.reason),
    }
}

/// What a sweep would train, and what that takes.
fn dry_run(args: &SweepArgs, folder: &SweepFolder, sweep: Option<&Sweep>) -> Result<()> {
    let plan = &folder.plan;
    let mut rows = vec![
        [
            "arm",
            "steps",
            "parameters",
            "FLOPs",
            "cells left",
            "time left",
        ]
        .map(String::from)
        .to_vec(),
    ];
    let (mut cells_left, mut seconds) = (0, Some(0.0));
    for (i, arm) in plan.arms.iter().enumerate() {
        let ended = |seed: &&u64| folder.ending_file(arm, **seed).exists();
        let left = plan.seeds.len() - plan.seeds.iter().filter(ended).count();
        let prepared = sweep.map(|s| &s.arms[i]);
        let known = prepared.and_then(|p| p.cost.step_ms);
        let ms = match (known, prepared) {
            (Some(ms), _) => Some(ms),
            (None, Some(prepared)) if !args.no_probe && left > 0 => {
                Some(planner::step_ms(prepared)?)
            }
            _ => None,
        };
        let time = ms.map(|ms| ms / 1e3 * arm.steps as f64 * left as f64);
        seconds = match (seconds, time, left) {
            (sum, _, 0) => sum,
            (Some(sum), Some(time), _) => Some(sum + time),
            _ => None,
        };
        cells_left += left;
        let flops = prepared.map(|p| p.cost.flops_per_step() * arm.steps as f64);
        rows.push(vec![
            arm.name.clone(),
            count(arm.steps),
            count(arm.params as u64),
            flops.map_or("–".into(), number),
            format!("{left} of {}", plan.seeds.len()),
            time.map_or("–".into(), duration),
        ]);
    }
    output::line(format!("{}: {}", folder.path.display(), summary(plan)))?;
    output::part(table(&rows, None))?;
    let time = seconds.map_or(String::new(), |s| {
        format!(
            ": {} of training one after the other, evaluations apart",
            duration(s)
        )
    });
    output::line(format!("{cells_left} cells left{time}"))?;
    if args.slurm.is_some() {
        output::part(slurm::script(&folder.path, &array(args))?)?;
    }
    Ok(())
}

/// How it all ended.
fn finish(sweep: &SweepFolder) -> Result<()> {
    let mut ends = [0usize; 3];
    let mut first_failed = None;
    let mut open = 0;
    for (arm, seed) in sweep.cells() {
        match sweep.ending(arm, seed)? {
            None => open += 1,
            Some(ending) => {
                ends[ending.state as usize] += 1;
                if ending.state == EndState::Failed && first_failed.is_none() {
                    first_failed = Some((cell::log_of(sweep, arm, seed), ending.reason));
                }
            }
        }
    }
    let [done, diverged, failed] = ends;
    let path = sweep.path.display();
    output::line(format!(
        "{done} cells done, {diverged} diverged, {failed} failed, {open} with other processes"
    ))?;
    output::line(format!("next: formwork compare {path}"))?;
    match first_failed {
        None => Ok(()),
        Some((log, reason)) => Err(Error::run(format!(
            "{failed} cells failed, the first with: {reason} ({}); train them again with: formwork sweep {path} --retry",
            log.display()
        ))),
    }
}
