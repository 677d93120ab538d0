//! `--fresh`: deletes a sweep's own files, once no process trains in them.

use crate::ablation::folders;
use crate::ablation::ledger::{CellState, Ledger, cells};
use crate::ablation::slurm::SCRIPT;
use crate::error::{Error, Result};
use crate::files;
use crate::report::read::sweep::{CELLS, LEDGER, PLAN, SweepFolder};
use crate::train::run_dir;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time that a process on this machine gets to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// The folder that `report` writes.
const REPORT: &str = "report";
/// Files are moved to this folder before they are deleted.
const TRASH: &str = "cleared";

/// Deletes the plan, the ledger, the cells and the report of a sweep; other files in its folder are kept.
///
/// # Errors
/// If a process trains a cell, if the experiment file lies inside a folder that would be deleted, or if a file cannot
/// be deleted.
pub fn clear(folder: &Path, experiment: &Path, lease: Duration) -> Result<()> {
    if !SweepFolder::is_sweep(folder) {
        return Ok(());
    }
    let inside = |part: &str| {
        let part = folder.join(part).canonicalize();
        let file = experiment.canonicalize();
        part.is_ok_and(|part| file.is_ok_and(|file| file.starts_with(part)))
    };
    if [CELLS, LEDGER, REPORT].into_iter().any(inside) {
        return Err(Error::usage(format!(
            "--fresh would delete {} itself, which is in the sweep's folder; move the file elsewhere",
            experiment.display()
        )));
    }
    // Keeps other processes from planning meanwhile.
    let _planning = folders::lock_planning(folder)?;
    let sweep = SweepFolder::read(folder)?;
    let claims = wait_until_unused(&sweep, lease)?;
    move_aside_and_delete(&sweep, &claims)?;
    files::delete_folder(&folder.join(REPORT))?;
    // The plan is deleted last, so that an interrupted clearing can be started again.
    for file in [SCRIPT, PLAN] {
        files::delete(&folder.join(file))?;
    }
    Ok(())
}

/// Moves the cells and the ledger aside and deletes them, after checking that no process took a cell since `known` was
/// read. Processes that start later work in folders with the original names, which are kept.
fn move_aside_and_delete(sweep: &SweepFolder, known: &BTreeSet<OsString>) -> Result<()> {
    let away = sweep.path.join(TRASH);
    if away.exists() {
        // Left over from a clearing that was interrupted.
        require_idle(sweep, &away, known)?;
        files::delete_folder(&away)?;
    }
    fs::create_dir_all(&away).map_err(Error::io("create", &away))?;
    let mut moved = Vec::new();
    for part in [LEDGER, CELLS] {
        let (from, to) = (sweep.path.join(part), away.join(part));
        if !from.exists() {
            continue;
        }
        files::delete_folder(&to)?;
        fs::rename(&from, &to).map_err(Error::io("rename", &from))?;
        moved.push((from, to));
    }
    if let Err(error) = require_idle(sweep, &away, known) {
        for (from, to) in moved {
            fs::rename(&to, &from).map_err(Error::io("rename", &to))?;
        }
        return Err(error);
    }
    files::delete_folder(&away)
}

/// Returns the file names of the claims in a ledger.
fn claims(ledger: &Path) -> Result<BTreeSet<OsString>> {
    let entries = match fs::read_dir(ledger) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(Error::io("read", ledger))?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names: std::io::Result<BTreeSet<OsString>> = names.collect();
    let mut names = names.map_err(Error::io("read", ledger))?;
    names.retain(|name| name.to_string_lossy().contains(".claim."));
    Ok(names)
}

/// Fails if the moved ledger has a claim that is not in `known`, or if a process trains in a moved run.
fn require_idle(sweep: &SweepFolder, away: &Path, known: &BTreeSet<OsString>) -> Result<()> {
    let all = cells(sweep);
    let now = claims(&away.join(LEDGER))?;
    let busy = all.iter().map(|(arm, seed, _)| {
        let run = sweep.run(&sweep.plan.arms[*arm], *seed);
        match run.strip_prefix(&sweep.path) {
            Ok(run) => away.join(run),
            Err(_) => run,
        }
    });
    let mut busy = busy.filter(|run| run_dir::is_busy(run));
    let taken = now.difference(known).next();
    let taken = taken.map(|name| name.to_string_lossy().into_owned());
    match taken.or_else(|| busy.next().map(|run| run.display().to_string())) {
        Some(taken) => Err(Error::usage(format!(
            "--fresh would delete {taken}, which a process has claimed in the meantime; stop the process first"
        ))),
        None => Ok(()),
    }
}

/// Waits until no process holds a cell or trains in its folder, and returns the claims at that moment. It waits briefly
/// for processes of this machine, and for a lease for those of other machines, of which it sees only the heartbeat.
fn wait_until_unused(sweep: &SweepFolder, lease: Duration) -> Result<BTreeSet<OsString>> {
    let all = cells(sweep);
    let names: Vec<String> = all.iter().map(|(_, _, name)| name.clone()).collect();
    let mut ledger = Ledger::open(&sweep.path, lease)?;
    let begun = Instant::now();
    loop {
        let known = claims(&sweep.path.join(LEDGER))?;
        let standings = ledger.states(&names)?;
        let held = names.iter().zip(standings).find_map(|(name, s)| match s {
            CellState::Held(holder) => Some((name, holder)),
            CellState::Open | CellState::Ended => None,
        });
        let far = held
            .as_ref()
            .is_some_and(|(_, holder)| !ledger.is_here(holder));
        let mut runs = all
            .iter()
            .map(|(arm, seed, _)| sweep.run(&sweep.plan.arms[*arm], *seed));
        let busy = runs.find(|run| run_dir::is_busy(run));
        let patience = if far {
            lease + EXIT_TIMEOUT
        } else {
            EXIT_TIMEOUT
        };
        match (held, busy) {
            (None, None) => return Ok(known),
            (Some((name, holder)), _) if !far || begun.elapsed() > patience => {
                return Err(Error::usage(format!(
                    "--fresh would delete {name}, which process {} on {} is training; stop the process first",
                    holder.pid, holder.host
                )));
            }
            (None, Some(run)) if begun.elapsed() > patience => {
                return Err(Error::usage(format!(
                    "--fresh would delete {}, where a process is training; stop the process first",
                    run.display()
                )));
            }
            _ => sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::read::sweep::SweepPlan;
    use crate::train::run_dir::{Existing, RunDir};

    fn sweep(folder: &Path) -> SweepFolder {
        let arm = serde_json::json!({"name": "a", "folder": "a", "steps": 1, "params": 1, "flops_per_item": 1.0, "settings": {}});
        let plan = serde_json::json!({"arms": [arm], "seeds": [1], "baseline": "a", "metric": "loss", "name": "s", "axes": []});
        let plan: SweepPlan = serde_json::from_value(plan).unwrap();
        SweepFolder {
            path: folder.to_path_buf(),
            plan,
        }
    }

    /// A cell is taken between the reading of the claims and the moving of the folders.
    #[test]
    fn what_is_taken_meanwhile_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(folder.path());
        let lease = Duration::from_secs(60);
        let mut ledger = Ledger::open(folder.path(), lease).unwrap();
        let known = wait_until_unused(&sweep, lease).unwrap();
        let run = sweep.run(&sweep.plan.arms[0], 1);
        let claim = ledger.claim("a.seed-1").unwrap().unwrap();
        let error = move_aside_and_delete(&sweep, &known)
            .unwrap_err()
            .to_string();
        assert!(error.contains("claimed in the meantime"), "{error}");
        assert!(ledger.holds(&claim) && folder.path().join(LEDGER).is_dir());
        let known = claims(&folder.path().join(LEDGER)).unwrap();
        let busy = RunDir::create(&run, Existing::Refuse).unwrap();
        let error = move_aside_and_delete(&sweep, &known)
            .unwrap_err()
            .to_string();
        assert!(error.contains("claimed in the meantime"), "{error}");
        assert!(run.is_dir());
        drop(busy);
        move_aside_and_delete(&sweep, &known).unwrap();
        assert!(!run.exists() && !folder.path().join(TRASH).exists());
    }
}
