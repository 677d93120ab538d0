//! Runs a sweep as a Slurm job array: every task works on the sweep's folder until no cell is open, and takes cells
//! from the same ledger as any other process.
//!
//! Tasks need the folder at the same path on every node (NFS will do). A task that is requeued or added later takes the
//! remaining cells, and ends when no cell is open. A task saves its cells before its time is up, since it is sent
//! SIGTERM in advance.

use crate::ablation::atomic_files::replace_file;
use crate::error::{Error, Result};
pub use crate::experiment::slurm::submit;
use crate::experiment::slurm::{SIGNAL_LEAD, job_name, require_option, shell_quoted};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name of the script in the sweep's folder.
pub const SCRIPT: &str = "sweep.sbatch";

/// The settings of the array.
#[derive(Clone, Debug)]
pub struct JobArray {
    /// Number of tasks.
    pub tasks: usize,
    /// Number of CPU cores of each task.
    pub cpus: usize,
    /// Seconds without a heartbeat after which a process on another node counts as dead.
    pub lease: f64,
    /// Whether a task waits for cells that others train: with a halving, a rung opens new cells for all tasks.
    pub waits: bool,
    /// Further options of `sbatch`, as on its command line: `--partition=gpu`.
    pub options: Vec<String>,
}

/// Builds the job script. Paths are absolute and quoted.
///
/// # Errors
/// If the path of the sweep's folder or of the program cannot be determined, or if an option is longer than one line.
pub fn script(folder: &Path, array: &JobArray) -> Result<String> {
    let folder = std::path::absolute(folder).map_err(Error::io("name", folder))?;
    let program = std::env::current_exe()
        .map_err(|e| Error::run(format!("cannot find this program: {e}")))?;
    for option in &array.options {
        require_option("--slurm-option", option)?;
    }
    let name = job_name(&folder.file_name().unwrap_or_default().to_string_lossy());
    let mut text = String::from("#!/bin/sh\n");
    let mut option = |o: String| {
        writeln!(text, "#SBATCH {o}").expect("writing to a string cannot fail");
    };
    option(format!("--job-name={name}"));
    option(format!("--array=1-{}", array.tasks));
    option(format!("--cpus-per-task={}", array.cpus));
    option(format!(
        "--output={}",
        shell_quoted(&folder.join("slurm-%A_%a.log"))
    ));
    option("--requeue".into());
    // The signal is sent to the task itself two minutes before its time is up, so that every cell can save.
    option(format!("--signal=B:TERM@{SIGNAL_LEAD}"));
    array.options.iter().for_each(|o| option(o.clone()));
    let (program, folder) = (shell_quoted(&program), shell_quoted(&folder));
    let (cpus, lease) = (array.cpus, array.lease);
    let wait = if array.waits { "" } else { " --no-wait" };
    writeln!(
        text,
        "exec {program} sweep {folder} --jobs 1 --threads {cpus} --lease {lease}{wait}"
    )
    .expect("writing to a string cannot fail");
    Ok(text)
}

/// Writes the script into the sweep's folder.
///
/// # Errors
/// As [`script`]; also if the file cannot be written.
pub fn write(folder: &Path, array: &JobArray) -> Result<PathBuf> {
    let text = script(folder, array)?;
    let path = folder.join(SCRIPT);
    replace_file(&path, &text)?;
    Ok(path)
}
