//! A sweep as a Slurm job array: every task works on the sweep's folder until no cell is open, taking cells from the
//! same ledger as any other process.
//!
//! Tasks need the folder at the same path on every node (NFS will do). A task that is requeued or added later takes
//! what is left; a task whose time is up has its cells saved, since it is sent SIGTERM before.

use crate::ablation::ledger::put_whole;
use crate::error::{Error, Result};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script's name in the sweep's folder.
pub const SCRIPT: &str = "sweep.sbatch";

/// The settings of the array.
#[derive(Clone, Debug)]
pub struct Array {
    /// Tasks.
    pub tasks: usize,
    /// Cores of each task.
    pub cpus: usize,
    /// Seconds without a heartbeat after which a process of another node counts as dead.
    pub lease: f64,
    /// More options of `sbatch`, as on its command line: `--partition=gpu`.
    pub options: Vec<String>,
}

/// The job script. Paths are absolute and quoted.
///
/// # Errors
/// A sweep's folder or a program that cannot be named; an option that is more than one line.
pub fn script(folder: &Path, array: &Array) -> Result<String> {
    let folder = std::path::absolute(folder).map_err(Error::io("name", folder))?;
    let program = std::env::current_exe()
        .map_err(|e| Error::run(format!("cannot find this program: {e}")))?;
    if let Some(wrong) = array
        .options
        .iter()
        .find(|o| !o.starts_with('-') || o.contains('\n'))
    {
        return Err(Error::usage(format!(
            "--slurm-option {wrong:?} is no option of sbatch; write it as --slurm-option=--partition=NAME"
        )));
    }
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-_.+".contains(c) => c,
        _ => '-',
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(plain).collect();
    let mut text = String::from("#!/bin/sh\n");
    let mut option = |o: String| {
        writeln!(text, "#SBATCH {o}").expect("writing to a string cannot fail");
    };
    option(format!("--job-name={name}"));
    option(format!("--array=1-{}", array.tasks));
    option(format!("--cpus-per-task={}", array.cpus));
    option(format!(
        "--output={}",
        quoted(&folder.join("slurm-%A_%a.log"))
    ));
    option("--requeue".into());
    // To the task itself, two minutes before its time is up: every cell can save.
    option("--signal=B:TERM@120".into());
    array.options.iter().for_each(|o| option(o.clone()));
    let (program, folder) = (quoted(&program), quoted(&folder));
    let (cpus, lease) = (array.cpus, array.lease);
    writeln!(
        text,
        "exec {program} sweep {folder} --jobs 1 --threads {cpus} --lease {lease} --no-wait"
    )
    .expect("writing to a string cannot fail");
    Ok(text)
}

/// Writes the script into the sweep's folder.
///
/// # Errors
/// Those of [`script`]; a file that cannot be written.
pub fn write(folder: &Path, array: &Array) -> Result<PathBuf> {
    let text = script(folder, array)?;
    let path = folder.join(SCRIPT);
    put_whole(&path, &text)?;
    Ok(path)
}

/// Hands the script to `sbatch`; what it answered.
///
/// # Errors
/// No `sbatch` here, or its refusal.
pub fn submit(script: &Path) -> Result<String> {
    let answer = Command::new("sbatch").arg(script).output();
    let answer = answer.map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::usage(format!(
            "there is no `sbatch` on this machine; the job script is {}, for a machine that has Slurm",
            script.display()
        )),
        _ => Error::io("run", "sbatch")(e),
    })?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    match answer.status.success() {
        true => Ok(said(&answer.stdout)),
        false => Err(Error::run(format!(
            "sbatch refused {}: {}",
            script.display(),
            said(&answer.stderr)
        ))),
    }
}

/// A path in a shell's single quotes.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
