//! The process of one cell: `formwork train` on the arm's experiment with the cell's seed and `--resume`.
//!
//! The process's standard input is a pipe that the sweep holds open. When the pipe closes, because the sweep stops or
//! was killed, the process saves and exits, so that no child outlives its sweep. Its output goes to a file beside its
//! run.

use crate::ablation::full_disk;
use crate::ablation::halving::Goal;
use crate::ablation::ledger::Claim;
use crate::error::{Error, Result};
use crate::report::read::run;
use crate::report::read::sweep::{ARM, CELLS, EndState, Ending, PlannedArm, SweepFolder};
use crate::train::run_dir;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A cell that a process trains.
#[derive(Debug)]
pub struct Cell {
    /// Number of its arm in the plan.
    pub arm: usize,
    /// Seed of its run.
    pub seed: u64,
    /// This process's claim on the cell.
    pub claim: Claim,
    /// The rung at which it pauses, if any.
    pub goal: Option<Goal>,
    /// Run folder of the cell.
    pub run: PathBuf,
    log: PathBuf,
    /// Byte at which this attempt's part of the log begins.
    log_from: u64,
    child: Option<Child>,
}

/// How a cell's process ended.
#[derive(Debug)]
pub enum CellExit {
    /// The process has ended the cell: done, diverged or failed.
    Ended(Ending),
    /// The process has reached its rung.
    Paused(Goal),
    /// The process was killed from outside; the cell will be resumed from its checkpoint.
    Killed(String),
    /// The process was asked to stop and has saved.
    Stopped,
    /// The process met a full disk, with this message; the cell will be resumed from its checkpoint once there is room.
    DiskFull(String),
}

impl Cell {
    /// Builds a cell whose process is not started yet.
    pub fn new(
        sweep: &SweepFolder,
        (arm, seed): (usize, u64),
        goal: Option<Goal>,
        claim: Claim,
    ) -> Self {
        let planned = &sweep.plan.arms[arm];
        Self {
            arm,
            seed,
            claim,
            goal,
            run: sweep.run(planned, seed),
            log: log_file(sweep, planned, seed),
            log_from: 0,
            child: None,
        }
    }

    /// Starts the process, unless the run's folder is locked by a process that is about to end. Returns whether it was
    /// started.
    ///
    /// # Errors
    /// If the program cannot be found or run, or the log cannot be opened.
    pub fn start(&mut self, sweep: &SweepFolder, threads: usize) -> Result<bool> {
        if run_dir::is_busy(&self.run) {
            return Ok(false);
        }
        let arm = &sweep.plan.arms[self.arm];
        let file = sweep.path.join(CELLS).join(&arm.folder).join(ARM);
        let program = std::env::current_exe()
            .map_err(|e| Error::run(format!("cannot find this program: {e}")))?;
        let log = || {
            let file = OpenOptions::new().create(true).append(true).open(&self.log);
            file.map_err(Error::io("open", &self.log))
        };
        self.log_from = fs::metadata(&self.log).map_or(0, |log| log.len());
        let mut command = Command::new(&program);
        command
            .arg("train")
            .arg(file)
            .args(["--set", &format!("seed={}", self.seed)])
            .args(["--set", &format!("name={}-s{}", arm.folder, self.seed)])
            .arg("--run")
            .arg(&self.run)
            .args(["--resume", "--plain", "--while-input-open"])
            .env("RAYON_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(log()?)
            .stderr(log()?);
        if let Some(goal) = self.goal {
            command.args(["--pause-at", &goal.step.to_string()]);
        }
        // Ctrl-C in a terminal is meant for the sweep, which then closes the pipe: a second signal would cut the saving
        // short.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        self.child = Some(command.spawn().map_err(Error::io("run", &program))?);
        Ok(true)
    }

    /// Returns whether the process has been started.
    pub fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Asks the process to save and end.
    pub fn stop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.stdin.take());
        }
    }

    /// Kills the process at once, because another one has taken over the cell.
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // The process may have ended by itself; either way it is gone.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Returns how the process ended; `None` while it runs.
    ///
    /// # Errors
    /// If the state of the process cannot be queried.
    pub fn poll(&mut self) -> Result<Option<CellExit>> {
        let Some(child) = &mut self.child else {
            return Ok(None);
        };
        let status = child
            .try_wait()
            .map_err(|e| Error::run(format!("cannot query the process of a run: {e}")))?;
        Ok(status.map(|status| self.outcome(status)))
    }

    /// Returns whether the run has taken its last step, or has ended early by itself.
    fn is_done(&self) -> bool {
        run::read(&self.run).is_ok_and(|run| run.is_done())
    }

    fn outcome(&self, status: ExitStatus) -> CellExit {
        let ending = |state, reason: String| {
            CellExit::Ended(Ending {
                state,
                reason,
                attempts: self.claim.attempt,
            })
        };
        match status.code() {
            Some(0) => match self.goal.filter(|_| !self.is_done()) {
                Some(goal) => CellExit::Paused(goal),
                None => ending(EndState::Done, String::new()),
            },
            Some(130) => CellExit::Stopped,
            Some(code) => {
                let diverged = run::read(&self.run).is_ok_and(|run| run.diverged_at().is_some());
                let state = match diverged {
                    true => EndState::Diverged,
                    false => EndState::Failed,
                };
                let named = last_error(&self.log, self.log_from);
                if named
                    .as_ref()
                    .is_some_and(|r| r.starts_with(&run_dir::in_use_message(&self.run)))
                {
                    // An earlier process still holds the run's folder: the cell will be tried again.
                    return CellExit::Stopped;
                }
                let is_full = match &named {
                    Some(reason) => full_disk::mentions_full_disk(reason),
                    // On a full disk nothing can be written to the log.
                    None => self.log.parent().is_some_and(full_disk::is_full),
                };
                let rest = || format!("exit status {code}; see {}", self.log.display());
                let reason = named.unwrap_or_else(rest);
                match is_full && !diverged {
                    true => CellExit::DiskFull(reason),
                    false => ending(state, reason),
                }
            }
            None => CellExit::Killed(status.to_string()),
        }
    }
}

/// Returns the file that holds the output of a cell's process.
pub fn log_file(sweep: &SweepFolder, arm: &PlannedArm, seed: u64) -> PathBuf {
    let folder = sweep.path.join(CELLS).join(&arm.folder);
    folder.join(format!("seed-{seed}.log"))
}

/// Returns the last error message in a process's log after byte `from`, in one line; `None` if there is none.
fn last_error(log: &Path, from: u64) -> Option<String> {
    let text = fs::read(log).unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let text = String::from_utf8_lossy(text.get(from..).unwrap_or_default());
    let mut named = text
        .lines()
        .rev()
        .filter_map(|line| line.strip_prefix("error: "));
    named.next().map(|error| error.trim().to_string())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::ablation::ledger::Ledger;
    use crate::train::run_dir::{Existing, RunDir};
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    /// Returns the exit of a cell whose process failed with this error.
    fn failed(folder: &Path, run: &Path, error: &str) -> CellExit {
        let log = folder.join("seed-1.log");
        fs::write(&log, format!("step 1\nerror: {error}\n")).unwrap();
        let mut ledger = Ledger::open(folder, Duration::from_secs(60)).unwrap();
        let cell = Cell {
            arm: 0,
            seed: 1,
            claim: ledger.claim("arm.seed-1").unwrap().unwrap(),
            goal: None,
            run: run.to_path_buf(),
            log,
            log_from: 0,
            child: None,
        };
        let outcome = cell.outcome(ExitStatus::from_raw(1 << 8));
        ledger.release(cell.claim).unwrap();
        outcome
    }

    #[test]
    fn only_the_lock_of_its_own_run_gives_a_cell_back() {
        let temp = tempfile::tempdir().unwrap();
        let run = temp.path().join("a folder that is in use: mine");
        let held = RunDir::create(&run, Existing::Refuse).unwrap();
        let locked = RunDir::create(&run, Existing::Refuse).unwrap_err();
        drop(held);
        let given_back = failed(temp.path(), &run, &locked.to_string());
        assert!(matches!(given_back, CellExit::Stopped), "{given_back:?}");
        for error in [
            format!("cannot read {}/data.tsv: it is gone", run.display()),
            "device cuda:0 is in use: by another program".to_string(),
            format!("{}-2 is in use: process 7 trains in it", run.display()),
        ] {
            let outcome = failed(temp.path(), &run, &error);
            let CellExit::Ended(ending) = &outcome else {
                panic!("{error}: {outcome:?}")
            };
            assert_eq!((ending.state, &ending.reason), (EndState::Failed, &error));
        }
    }

    #[test]
    fn a_cell_on_a_full_disk_has_not_ended() {
        let temp = tempfile::tempdir().unwrap();
        let run = temp.path().join("seed-1");
        for number in [libc::ENOSPC, libc::EDQUOT] {
            let system = std::io::Error::from_raw_os_error(number);
            let error = Error::io("write", &run)(system).to_string();
            let outcome = failed(temp.path(), &run, &error);
            let CellExit::DiskFull(told) = &outcome else {
                panic!("{error}: {outcome:?}")
            };
            assert_eq!(*told, error);
        }
        let other = std::io::Error::from_raw_os_error(libc::EACCES);
        let outcome = failed(
            temp.path(),
            &run,
            &Error::io("write", &run)(other).to_string(),
        );
        assert!(matches!(outcome, CellExit::Ended(_)), "{outcome:?}");
    }
}
