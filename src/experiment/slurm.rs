//! Writes Slurm job scripts for runs, and helpers that all job scripts share.
//!
//! A job starts one process per task with `srun`, and all of them train one run. Two minutes before the time limit each process
//! is sent SIGTERM. The run saves a checkpoint and ends with status 130, and the job requeues itself; its next start resumes
//! the run. The run's folder must have the same path on every node (NFS will do).

use crate::error::{Error, Result};
use crate::stop::INTERRUPTED;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds between the signal that asks a run to save and the time limit of the job.
pub const SIGNAL_LEAD: u32 = 120;

/// Seconds that the other tasks may go on after the first one has ended.
const PATIENCE: u32 = 60;

/// Minimum time limit of a job in minutes: Slurm may send the signal a minute early, and a run needs time of its own.
const LEAST_MINUTES: u64 = 5;

/// What the processes of a job do.
#[derive(Clone, Debug)]
pub enum Work {
    /// Trains an experiment file in a run's folder, or resumes the run in that folder.
    Train,
    /// Resumes a run.
    Resume,
}

/// A job for one run. All paths are absolute, including the program's.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// What the tasks do.
    pub work: Work,
    /// Path of this program.
    pub program: &'a Path,
    /// The experiment file; for [`Work::Resume`], the run's folder.
    pub file: &'a Path,
    /// The run's folder.
    pub run: &'a Path,
    /// The working directory, from which relative paths start.
    pub directory: &'a Path,
    /// `KEY=VALUE` arguments for `--set`.
    pub sets: &'a [String],
    /// Number of nodes.
    pub nodes: u32,
    /// Number of tasks per node.
    pub tasks_per_node: u32,
    /// Number of cores, and of threads, per task; the partition's default when absent.
    pub cpus_per_task: Option<u32>,
    /// The value of `srun --mpi`, used if there is more than one task.
    pub mpi: &'a str,
    /// How often the job may requeue itself.
    pub restarts: u32,
    /// Further options of `sbatch`, as on its command line.
    pub options: &'a [String],
}

/// Builds the job script. It is a pure function of the job.
pub fn script(job: &Job) -> String {
    let name = job.run.file_name().unwrap_or_default().to_string_lossy();
    let mut text = String::from("#!/bin/sh\n");
    let mut put = |line: String| {
        writeln!(text, "{line}").expect("writing to a string cannot fail");
    };
    put(format!("#SBATCH --job-name={}", job_name(&name)));
    put(format!("#SBATCH --nodes={}", job.nodes));
    put(format!("#SBATCH --ntasks-per-node={}", job.tasks_per_node));
    if let Some(cpus) = job.cpus_per_task {
        put(format!("#SBATCH --cpus-per-task={cpus}"));
    }
    put(format!("#SBATCH --chdir={}", shell_quoted(job.directory)));
    put(format!("#SBATCH --output={}", shell_quoted(&log(job.run))));
    put("#SBATCH --open-mode=append".into());
    put("#SBATCH --requeue".into());
    put(format!("#SBATCH --signal=TERM@{SIGNAL_LEAD}"));
    for option in job.options {
        put(format!("#SBATCH {option}"));
    }
    put(String::new());
    // Since version 22.05, srun does not inherit the cores per task from sbatch.
    let mut srun = String::from("srun");
    if u64::from(job.nodes) * u64::from(job.tasks_per_node) > 1 {
        // Tasks end together unless one is killed; the others would wait for it forever.
        srun += &format!(" --mpi={} --wait={PATIENCE}", job.mpi);
    }
    if let Some(cpus) = job.cpus_per_task {
        srun += &format!(" --cpus-per-task={cpus}");
        put(format!("export RAYON_NUM_THREADS={cpus}"));
    }
    let (program, file) = (shell_quoted(job.program), shell_quoted(job.file));
    let sets: String = job
        .sets
        .iter()
        .map(|set| format!(" --set {}", shell_quoted(Path::new(set))))
        .collect();
    put(match job.work {
        Work::Train => {
            let run = shell_quoted(job.run);
            format!("{srun} {program} train {file} --run {run} --resume --plain{sets}")
        }
        Work::Resume => format!("{srun} {program} resume {file} --plain{sets}"),
    });
    put("status=$?".into());
    if job.restarts > 0 {
        put(format!(
            "# The run was saved before its time limit: requeue the job, and the next start resumes the run.\n\
             if [ \"$status\" -eq {INTERRUPTED} ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {} ]; then\n    \
             exec scontrol requeue \"$SLURM_JOB_ID\"\nfi",
            job.restarts
        ));
    }
    put("exit \"$status\"".into());
    text
}

/// Returns the path of the log beside a run's folder, with Slurm's placeholder for the job number.
pub fn log(run: &Path) -> PathBuf {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let log = run.with_file_name(name.as_ref()).display().to_string();
    PathBuf::from(format!("{}.slurm-%j.log", log.replace('%', "%%")))
}

/// Submits a script with `sbatch` and returns its answer.
///
/// # Errors
/// If there is no `sbatch` on this machine, or it refuses the script.
pub fn submit(script: &Path) -> Result<String> {
    let answer = Command::new("sbatch").arg(script).output();
    let answer = answer.map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::usage(format!(
            "`sbatch` was not found on this machine; submit the job script {} on a machine that has Slurm",
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

/// Checks that `option` can be an option of `sbatch`; `flag` is the flag that gave it, for the message.
///
/// # Errors
/// If the option does not begin with a dash, or has more than one line.
pub fn require_option(flag: &str, option: &str) -> Result<()> {
    match option.starts_with('-') && !option.contains('\n') {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{flag} {option:?} is not an option of sbatch; write it as {flag}=--partition=NAME"
        ))),
    }
}

/// Parses a time in one of Slurm's formats, in minutes: `90`, `90:00`, `1:30:00`, `1-12`, `1-12:00`, `1-12:00:00`.
///
/// # Errors
/// If the format is unknown, or the time is too short for a run that is asked to save before its end.
pub fn minutes(text: &str) -> Result<u64, String> {
    let parts = |text: &str| -> Option<Vec<u64>> { text.split(':').map(number).collect() };
    let seconds = match text.split_once('-') {
        Some((days, rest)) => number(days).zip(parts(rest)).and_then(|(days, rest)| {
            let hours = rest.first()?;
            let (minutes, seconds) = (rest.get(1).unwrap_or(&0), rest.get(2).unwrap_or(&0));
            (rest.len() <= 3).then_some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
        }),
        None => parts(text).and_then(|parts| match parts[..] {
            [minutes] => Some(minutes * 60),
            [minutes, seconds] => Some(minutes * 60 + seconds),
            [hours, minutes, seconds] => Some((hours * 60 + minutes) * 60 + seconds),
            _ => None,
        }),
    };
    let Some(seconds) = seconds else {
        return Err("not a Slurm time; write minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS".into());
    };
    match seconds / 60 {
        minutes if minutes >= LEAST_MINUTES => Ok(minutes),
        _ => Err(format!(
            "a run is asked to save {SIGNAL_LEAD} seconds before its time limit; give at least {LEAST_MINUTES} minutes"
        )),
    }
}

/// Parses a number of up to six digits.
fn number(digits: &str) -> Option<u64> {
    let fits = digits.len() <= 6 && digits.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| digits.parse().ok()).flatten()
}

/// Converts a name to a job name of letters, digits and `-_.+`.
pub fn job_name(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-_.+".contains(c) => c,
        _ => '-',
    };
    name.chars().map(plain).collect()
}

/// Returns a path in single quotes for a shell.
pub fn shell_quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_slurm() {
        for (text, wanted) in [
            ("90", 90),
            ("90:30", 90),
            ("1:30:00", 90),
            ("2-1", 49 * 60),
            ("1-00:30", 24 * 60 + 30),
            ("1-12:00:59", 36 * 60),
        ] {
            assert_eq!(minutes(text), Ok(wanted), "{text}");
        }
        for text in ["", "1h", "1:2:3:4", "1-2:3:4:5", "-5", "1-", "9999999"] {
            assert!(
                minutes(text).unwrap_err().contains("not a Slurm time"),
                "{text}"
            );
        }
        for text in ["4", "4:59", "0-0"] {
            assert!(
                minutes(text).unwrap_err().contains("at least 5 minutes"),
                "{text}"
            );
        }
    }
}
