//! `--fresh`: a sweep's own files are deleted, once no process trains in them.

use crate::ablation::ledger::{Ledger, Standing, cells};
use crate::ablation::slurm::SCRIPT;
use crate::error::{Error, Result};
use crate::files;
use crate::report::read::sweep::{CELLS, LEDGER, PLAN, SweepFolder};
use crate::train::run_dir;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a process that is about to end may take.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// The folder that `report` writes.
const REPORT: &str = "report";

/// Deletes the plan, the ledger, the cells and the report of a sweep; nothing else that lies in its folder.
///
/// # Errors
/// Cells that a process trains; an experiment file inside of what would be deleted; what cannot be deleted.
pub fn clear(folder: &Path, experiment: &Path, lease: Duration) -> Result<()> {
    if !SweepFolder::is_one(folder) {
        return Ok(());
    }
    let inside = |part: &str| {
        let part = folder.join(part).canonicalize();
        let file = experiment.canonicalize();
        part.is_ok_and(|part| file.is_ok_and(|file| file.starts_with(part)))
    };
    if [CELLS, LEDGER, REPORT].into_iter().any(inside) {
        return Err(Error::usage(format!(
            "--fresh would delete {} itself, which lies in the sweep's folder",
            experiment.display()
        )));
    }
    unused(&SweepFolder::read(folder)?, lease)?;
    for part in [CELLS, LEDGER, REPORT] {
        files::delete_folder(&folder.join(part))?;
    }
    // The plan last: a clearing that is cut short can be begun again.
    for file in [SCRIPT, PLAN] {
        files::delete(&folder.join(file))?;
    }
    Ok(())
}

/// Waits until no process holds a cell or trains in its folder: a moment for those of this machine, a lease for those of
/// others, of which there is only the heartbeat.
fn unused(sweep: &SweepFolder, lease: Duration) -> Result<()> {
    let all = cells(sweep);
    let names: Vec<String> = all.iter().map(|(_, _, name)| name.clone()).collect();
    let mut ledger = Ledger::open(&sweep.path, lease)?;
    let begun = Instant::now();
    loop {
        let standings = ledger.standings(&names)?;
        let held = names.iter().zip(standings).find_map(|(name, s)| match s {
            Standing::Held(holder) => Some((name, holder)),
            Standing::Open | Standing::Ended => None,
        });
        let far = held
            .as_ref()
            .is_some_and(|(_, holder)| !ledger.is_here(holder));
        let mut runs = all
            .iter()
            .map(|(arm, seed, _)| sweep.run(&sweep.plan.arms[*arm], *seed));
        let busy = runs.find(|run| run_dir::is_busy(run));
        let patience = if far { lease + PATIENCE } else { PATIENCE };
        match (held, busy) {
            (None, None) => return Ok(()),
            (Some((name, holder)), _) if !far || begun.elapsed() > patience => {
                return Err(Error::usage(format!(
                    "--fresh would delete {name}, which process {} on {} trains; stop it first",
                    holder.pid, holder.host
                )));
            }
            (None, Some(run)) if begun.elapsed() > patience => {
                return Err(Error::usage(format!(
                    "--fresh would delete {}, in which a process trains; stop it first",
                    run.display()
                )));
            }
            _ => sleep(PAUSE),
        }
    }
}
