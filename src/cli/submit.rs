//! `formwork submit`: submits a run as a Slurm job.
//!
//! The cluster on which a run is computed is not part of the experiment, so its settings are flags, and an experiment is the
//! same file on every machine.

use super::flags::Keys;
use super::output;
use crate::error::{Error, Result};
use crate::experiment::run::default_folder;
use crate::experiment::slurm::{self, Job, Work};
use crate::experiment::{self, LoadedExperiment, check, temporary_keys};
use crate::files;
use crate::train::{ranks, run_dir};
use clap::Args;
use std::path::{Path, PathBuf, absolute};

/// `formwork submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// The experiment file, or the folder of a run to resume.
    #[arg(value_name = "FILE.toml|RUN", value_parser = super::flags::run_folder())]
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// The run folder; checkpoints/NAME when absent.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536))]
    nodes: u32,
    /// Number of tasks per node: processes that share each step.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    tasks_per_node: u32,
    /// Number of cores, and of threads, per task.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus_per_task: Option<u32>,
    /// Time limit of the job in Slurm's format: 90, 12:00:00, 1-12. The job is resumed after that.
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<String>,
    /// The partition to use.
    #[arg(long, value_name = "NAME", value_parser = word)]
    partition: Option<String>,
    /// The account to charge.
    #[arg(long, value_name = "NAME", value_parser = word)]
    account: Option<String>,
    /// How srun starts MPI; `srun --mpi=list` shows the kinds that a cluster has.
    #[arg(long, value_name = "KIND", default_value = "pmix", value_parser = word)]
    mpi: String,
    /// How often the job is requeued when its time is up.
    #[arg(long, value_name = "N", default_value_t = 100)]
    restarts: u32,
    /// Another option for sbatch: --slurm-option=--mem=8G
    #[arg(long, value_name = "OPTION")]
    slurm_option: Vec<String>,
    /// Print the job script; write and submit nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Whether this program can be one of several processes of a run.
const HAS_MPI: bool = cfg!(feature = "mpi");

/// Runs `formwork submit`.
///
/// # Errors
/// If the experiment is invalid; if tasks cannot share its micro-batches; if the run exists already; if there is no `sbatch`,
/// or it refuses the job.
pub fn run(args: SubmitArgs) -> Result<()> {
    let resumes = run_dir::is_run(&args.file);
    let (loaded, folder) = match resumes {
        true => (run_of(&args)?, args.file.clone()),
        false => experiment_of(&args)?,
    };
    let tasks = args.nodes as usize * args.tasks_per_node as usize;
    if let Some(fault) = ranks::fault(tasks, &loaded.experiment.train) {
        return Err(Error::usage(format!(
            "--nodes {} x --tasks-per-node {}: {fault}",
            args.nodes, args.tasks_per_node
        )));
    }
    let folder = absolute(&folder).map_err(Error::io("name", &folder))?;
    let text = script(&args, &folder, resumes)?;
    if args.dry_run {
        return output::line_part(text);
    }
    if tasks > 1 && !HAS_MPI {
        return Err(Error::usage(format!(
            "this program was built without MPI, so {tasks} tasks would be {tasks} runs; build it with `cargo build --release \
             --features mpi`, or use one task"
        )));
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let path = folder.with_file_name(format!("{name}.sbatch"));
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    }
    files::write(&path, text.as_bytes())?;
    let said = slurm::submit(&path)?;
    output::line(said)?;
    output::note(format!(
        "job script: {}\nlog:        {}",
        path.display(),
        slurm::log(&folder).display()
    ));
    Ok(())
}

/// The experiment to train and its folder, which holds no run yet.
fn experiment_of(args: &SubmitArgs) -> Result<(LoadedExperiment, PathBuf)> {
    let loaded = experiment::load(&args.file, &args.keys.sets())?;
    if loaded.experiment.ablation.is_some() {
        return Err(Error::usage(format!(
            "{0} has [ablation] and describes several runs; use: formwork sweep {0} --slurm TASKS",
            args.file.display()
        )));
    }
    experiment::check(&loaded)?;
    let folder = args
        .run
        .clone()
        .unwrap_or_else(|| default_folder(&loaded.experiment.name));
    if run_dir::is_run(&folder) {
        return Err(Error::usage(format!(
            "{0} already contains a run; resume it with `formwork submit {0}`, or choose another folder with --run DIR",
            folder.display()
        )));
    }
    Ok((loaded, folder))
}

/// The experiment of the run to resume.
fn run_of(args: &SubmitArgs) -> Result<LoadedExperiment> {
    if args.run.is_some() {
        return Err(Error::usage(format!(
            "--run has no effect: {} is a run's folder, and the run is resumed there; remove --run",
            args.file.display()
        )));
    }
    temporary_keys::require_no_unset(&args.keys.sets())?;
    let loaded = experiment::load(&args.file.join(run_dir::RESOLVED), &args.keys.sets())?;
    check::check_for_resume(&loaded)?;
    Ok(loaded)
}

fn script(args: &SubmitArgs, folder: &Path, resumes: bool) -> Result<String> {
    let program = std::env::current_exe()
        .map_err(|e| Error::run(format!("cannot find this program: {e}")))?;
    let directory = std::env::current_dir()
        .map_err(|e| Error::run(format!("cannot find the current folder: {e}")))?;
    let file = absolute(&args.file).map_err(Error::io("name", &args.file))?;
    for (what, path) in [
        ("the run's folder", folder),
        ("the file", file.as_path()),
        ("the current folder", directory.as_path()),
    ] {
        if path.to_string_lossy().contains(['\n', '\0']) {
            return Err(Error::usage(format!(
                "{what} {path:?} contains a line break or a NUL byte, which a job script cannot contain"
            )));
        }
    }
    for option in &args.slurm_option {
        slurm::require_option("--slurm-option", option)?;
    }
    let named = [
        ("time", &args.time),
        ("partition", &args.partition),
        ("account", &args.account),
    ];
    let mut options: Vec<String> = named
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("--{name}={value}")))
        .collect();
    options.extend(args.slurm_option.iter().cloned());
    Ok(slurm::script(&Job {
        work: match resumes {
            true => Work::Resume,
            false => Work::Train,
        },
        program: &program,
        file: &file,
        run: folder,
        directory: &directory,
        sets: &args.keys.sets(),
        nodes: args.nodes,
        tasks_per_node: args.tasks_per_node,
        cpus_per_task: args.cpus_per_task,
        mpi: &args.mpi,
        restarts: args.restarts,
        options: &options,
    }))
}

/// Parses a Slurm time that is long enough; returns it as given.
fn time(text: &str) -> Result<String, String> {
    slurm::minutes(text).map(|_| text.to_string())
}

/// Parses a name on the cluster, without spaces or a leading dash.
fn word(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,+/".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        true => Ok(text.to_string()),
        false => Err("it is not a name; use only ASCII letters, digits and -_.,+/".into()),
    }
}
