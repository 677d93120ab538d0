//! `formwork sweep`: runs an ablation, from its file to its table.

pub(in crate::cli) mod base_note;
mod messages;

use super::flags::Keys;
use super::output;
use crate::ablation::folders::ExistingSweep;
use crate::ablation::ledger::{Ledger, cells};
use crate::ablation::matching::WIDTH;
use crate::ablation::planner;
use crate::ablation::prepared::{PreparedArm, Sweep};
use crate::ablation::runner::{self, Event, Options};
use crate::ablation::slurm::{self, JobArray};
use crate::ablation::{base_name, clearing, folders, sources, unchanged};
use crate::error::{Error, Result, shell_word};
use crate::experiment::LoadedExperiment;
use crate::experiment::ablation::Matched;
use crate::experiment::run::default_folder;
use crate::report::read::sweep::{EndState, SweepFolder};
use crate::stop::StopFlag;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `formwork sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// An experiment with [ablation], or the folder of a sweep to resume
    #[arg(value_name = "FILE.toml|SWEEP", value_parser = crate::cli::flags::sweep_folder())]
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Folder of the sweep; checkpoints/NAME when absent
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Number of cells that are trained at the same time
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "slurm", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Threads per cell; when absent, the machine's cores divided by --jobs, or one with --slurm
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Show arms, costs and time; train nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not time a few steps of each arm for the dry run
    #[arg(long, requires = "dry_run")]
    no_probe: bool,
    /// Train failed cells again
    #[arg(long)]
    retry: bool,
    /// Delete the sweep's folder first
    #[arg(long)]
    fresh: bool,
    /// Do not wait for cells that other processes train
    #[arg(long)]
    no_wait: bool,
    /// Seconds without a heartbeat after which a process on another machine is considered dead
    #[arg(long, value_name = "SECONDS", default_value_t = 90.0)]
    lease: f64,
    /// Print plain lines and tables without box-drawing characters, also in a terminal
    #[arg(long)]
    plain: bool,
    /// Submit a Slurm job array of N tasks instead, which share the cells; with --dry-run only print its script
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    slurm: Option<u16>,
    /// An option for sbatch: --slurm-option=--partition=NAME
    #[arg(long, value_name = "OPTION", requires = "slurm")]
    slurm_option: Vec<String>,
}

/// Runs `formwork sweep`.
///
/// # Errors
/// If the file or any arm is invalid; if the folder cannot be used; if cells failed or all diverged; if the disk is full.
pub fn run(args: SweepArgs) -> Result<()> {
    if !(args.lease >= 1.0 && args.lease <= 86_400.0) {
        return Err(Error::usage("--lease must be between 1 and 86400 seconds"));
    }
    let lease = Duration::from_secs_f64(args.lease);
    let (folder, asked) = requested_sweep(&args)?;
    let sweeps = asked.iter().map(|(sweep, _)| sweep);
    sweeps.flat_map(|sweep| &sweep.notes).for_each(output::note);
    let arms = asked.iter().flat_map(|(sweep, _)| &sweep.arms);
    for replaced in arms.flat_map(PreparedArm::replaced_notes) {
        output::note(replaced);
    }
    if args.slurm.is_some() {
        // Checked before anything is written or deleted.
        slurm::script(&folder, &array(&args, false))?;
    }
    let (plan, files) = match &asked {
        Some((sweep, before)) => folders::plan_sweep(sweep, before, args.retry)?,
        None => {
            let settled = SweepFolder::read(&folder)?;
            sources::require_same_in(&settled, args.retry)?;
            (settled.plan, Vec::new())
        }
    };
    let planned = SweepFolder {
        path: folder.clone(),
        plan,
    };
    if args.dry_run {
        let sweep = asked.as_ref().map(|(sweep, _)| sweep);
        messages::dry_run(&args, &planned, sweep)?;
        return sweep.map_or(Ok(()), widths);
    }
    if args.fresh {
        clearing::clear(&folder, &args.file, lease)?;
    }
    let sweep_folder = match &asked {
        Some((_, before)) => write_plan(&args, planned, files, before)?,
        // The plan of a given folder is fixed; another process may be writing a longer one.
        None => planned,
    };
    for (arm, seed) in sweep_folder.cells() {
        // A damaged ending file of a cell is reported before anything is trained.
        sweep_folder.ending(arm, seed)?;
    }
    let ledger = Ledger::open(&folder, lease)?;
    reopen(&sweep_folder, &ledger, args.retry)?;
    if args.slurm.is_some() {
        if !sources::has_cells_left(&sweep_folder, false)? {
            return messages::nothing_left(&sweep_folder);
        }
        let script = slurm::write(&folder, &array(&args, sweep_folder.plan.halving.is_some()))?;
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
        messages::summary(&sweep_folder.plan)
    ));
    let stop = StopFlag::on_signals()?;
    let mut failed = false;
    let mut follow = |event: Event| messages::follow(&sweep_folder, &event, &mut failed);
    runner::train_cells(&sweep_folder, ledger, options, &stop, &mut follow)?;
    messages::finish(&sweep_folder, args.plain)
}

/// Writes the sweep's plan; if another process has changed the folder in the meantime, plans again first.
fn write_plan(
    args: &SweepArgs,
    planned: SweepFolder,
    files: Vec<(String, String)>,
    before: &ExistingSweep,
) -> Result<SweepFolder> {
    let folder = planned.path.clone();
    let _planning = folders::lock_planning(&folder)?;
    // After --fresh the folder may still hold foreign files; it is then not a sweep's folder.
    let now = match args.fresh && !SweepFolder::is_sweep(&folder) {
        true => ExistingSweep::default(),
        false => ExistingSweep::read(&folder)?,
    };
    let same = now.plan == before.plan;
    let (planned, files) = if same {
        (planned, files)
    } else {
        let sweep = planner::prepare(&args.file, &args.keys.sets(), &now)?;
        let (plan, files) = folders::plan_sweep(&sweep, &now, args.retry)?;
        (
            SweepFolder {
                path: folder.clone(),
                plan,
            },
            files,
        )
    };
    messages::note_removed(now.plan.as_ref(), &planned);
    folders::write(&folder, &planned.plan, &files)
}

/// Extends the error about a folder that is not a sweep's, if the sweep has the same name, and hence folder, as a run of its
/// base.
fn with_name_hint(error: Error, loaded: &LoadedExperiment, folder: &Path) -> Error {
    let named = folder == default_folder(&loaded.experiment.name) && !SweepFolder::is_sweep(folder);
    match base_name::note(loaded).filter(|_| named) {
        Some(note) => Error::usage(format!("{error}. {note}")),
        None => error,
    }
}

/// The sweep's folder, and the sweep as its file describes it, given what the folder already holds. No sweep if the folder
/// itself was given, or if the file describes a finished sweep whose data no longer exists.
fn requested_sweep(args: &SweepArgs) -> Result<(PathBuf, Option<(Sweep, ExistingSweep)>)> {
    if SweepFolder::is_sweep(&args.file) {
        let given = [
            (!args.keys.sets().is_empty(), "--set or --unset"),
            (args.run.is_some(), "--run"),
            (args.fresh, "--fresh"),
        ];
        if let Some((_, flag)) = given.iter().find(|(given, _)| *given) {
            return Err(Error::usage(format!(
                "{flag} needs the sweep's file; {} is its folder, whose plan is fixed",
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
    let loaded = crate::experiment::load(&args.file, &args.keys.sets())?;
    planner::ablation(&loaded, &args.file)?;
    let named = || default_folder(&loaded.experiment.name);
    let folder = args.run.clone().unwrap_or_else(named);
    // A sweep that is to be deleted is ignored; a folder that is not a sweep's is refused, as without --fresh.
    let before = match args.fresh && SweepFolder::is_sweep(&folder) {
        true => ExistingSweep::default(),
        false => {
            ExistingSweep::read(&folder).map_err(|error| with_name_hint(error, &loaded, &folder))?
        }
    };
    let sweep = planner::prepare(&args.file, &args.keys.sets(), &before);
    if sweep.is_err() && before.plan.is_some() && is_finished(&folder, args.retry) {
        // Planning reads the data of the arms, which may be gone; the table needs only the folder.
        let same = unchanged::is_same(&args.file, &args.keys.sets(), &before);
        if let (Err(error), Ok(true)) = (&sweep, same) {
            output::note(format!(
                "the sweep in {} is finished; its table is made from its runs only, because the sweep cannot be planned again: \
                 {error}",
                folder.display()
            ));
            return Ok((folder, None));
        }
        output::note(format!(
            "the sweep in {} is finished; its table: formwork sweep {}",
            folder.display(),
            shell_word(&folder)
        ));
    }
    Ok((folder, Some((sweep?, before))))
}

/// Whether a sweep has no cell left to train; with `retry`, failed cells count as left.
fn is_finished(folder: &Path, retry: bool) -> bool {
    let left = SweepFolder::read(folder).and_then(|sweep| sources::has_cells_left(&sweep, retry));
    left.is_ok_and(|left| !left)
}

/// Prints a line for each arm whose feed-forward width was adjusted to match the baseline's parameters.
fn widths(sweep: &Sweep) -> Result<()> {
    if sweep.config.matched != Some(Matched::Parameters) {
        return Ok(());
    }
    let others = sweep.arms.iter().filter(|arm| arm.name != sweep.baseline);
    for arm in others {
        if let Some(width) = arm.settings.get(WIDTH) {
            let name = &arm.name;
            output::line(format!(
                "match = \"parameters\": arm `{name}` has {WIDTH} = {width}"
            ))?;
        }
    }
    Ok(())
}

/// Number of threads per process: the cores, divided among the jobs.
fn threads(args: &SweepArgs) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match args.threads {
        Some(n) => n.into(),
        None => (cores / usize::from(args.jobs)).max(1),
    }
}

fn array(args: &SweepArgs, waits: bool) -> JobArray {
    JobArray {
        tasks: args.slurm.unwrap_or(1).into(),
        cpus: args.threads.unwrap_or(1).into(),
        lease: args.lease,
        waits,
        options: args.slurm_option.clone(),
    }
}

/// Reopens the cells whose runs were deleted and, with `retry`, failed ones; not in arms that a rung has dropped.
fn reopen(sweep: &SweepFolder, ledger: &Ledger, retry: bool) -> Result<()> {
    let decisions = sweep.decisions()?;
    for (arm, seed, name) in cells(sweep) {
        let arm = &sweep.plan.arms[arm];
        let lost = decisions
            .iter()
            .any(|rung| rung.rank(&arm.folder).is_some() && !rung.promotes(&arm.folder));
        let failed = (sweep.ending(arm, seed)?).is_some_and(|e| e.state == EndState::Failed);
        let gone = sweep.is_deleted(arm, seed)?;
        if lost || !(gone || retry && failed) {
            continue;
        }
        if gone {
            let why = "ended, but its run folder is missing; it is trained again";
            output::note(format!("{name}: {why}"));
        }
        ledger.reopen(&name)?;
    }
    Ok(())
}
