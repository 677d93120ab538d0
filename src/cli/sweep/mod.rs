//! `formwork sweep`: an ablation from its file to its table.

mod shown;

use super::output;
use crate::ablation::folders;
use crate::ablation::ledger::{Ledger, Standing, cells};
use crate::ablation::planner::{self, Sweep};
use crate::ablation::runner::{self, Event, Options};
use crate::ablation::slurm::{self, Array};
use crate::error::{Error, Result};
use crate::experiment::run::default_folder;
use crate::report::sweep::{EndState, SweepFolder};
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
        return shown::dry_run(&args, &sweep_folder, sweep.as_ref());
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
        shown::summary(&sweep_folder.plan)
    ));
    let stop = Stop::on_signals()?;
    let mut follow = |event: Event| shown::follow(&sweep_folder, &event);
    runner::work(&sweep_folder, ledger, options, &stop, &mut follow)?;
    shown::finish(&sweep_folder)
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
