//! The ledger of a sweep: which process trains which cell. It is kept on disk, so that it survives the death of any
//! process and is shared by several machines.
//!
//! ```text
//! ledger/CELL.claim.N   the N-th attempt and who made it: linked into place whole, so that one process wins
//! ledger/CELL.beat.N    rewritten by its holder while it lives
//! ledger/CELL.free.N    the holder gave the cell back
//! ledger/CELL.rung.K    the cell has come to rung K of the halving, and pauses there
//! ledger/CELL.end.json  how the cell ended
//! ```
//!
//! A cell is open if it has not ended and if its last claim was given back or its holder is gone. No lock is ever
//! released by deleting a file: a takeover is claim N + 1, which can be made only once. Hard links are atomic even on
//! NFS.

use crate::ablation::atomic_files::{create_once, replace_file};
use crate::ablation::liveness::{HeartbeatWatch, Holder};
use crate::error::{Error, Result};
use crate::files;
use crate::report::read::sweep::{Ending, LEDGER, SweepFolder};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The ledger of a sweep, as one process sees and changes it.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    lease: Duration,
    own_holder: Holder,
    watch: HeartbeatWatch,
}

/// What a cell's files show: how many claims were made and given back, the rung it has reached, and whether it has
/// ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellMarks {
    claimed: u32,
    released: u32,
    rung: u32,
    ended: bool,
}

impl CellMarks {
    /// Returns whether the cell has reached a rung of the halving, or has ended before it.
    pub fn has_reached_rung(self, rung: usize) -> bool {
        self.ended || self.rung as usize >= rung
    }

    /// Returns whether the cell has ended.
    pub fn has_ended(self) -> bool {
        self.ended
    }

    /// Returns how often the cell's run was started or resumed.
    pub fn attempts(self) -> u32 {
        self.claimed
    }
}

/// The marks of all cells by name.
pub type MarksByCell = BTreeMap<String, CellMarks>;

/// A claim of this process on a cell.
#[derive(Debug)]
pub struct Claim {
    /// Name of the cell.
    pub cell: String,
    /// Number of the attempt, counted from 1.
    pub attempt: u32,
    heartbeats: u64,
    /// Lock on the claim's file, held as long as this process lives and holds the cell.
    _lock: Option<File>,
}

/// State of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellState {
    /// The cell has not ended, and no process trains it.
    Open,
    /// A process trains the cell.
    Held(Holder),
    /// The cell has ended.
    Ended,
}

impl Ledger {
    /// Opens the ledger of a sweep; `lease` is how long a heartbeat from another machine may stand still.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(sweep: &Path, lease: Duration) -> Result<Self> {
        let folder = sweep.join(LEDGER);
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        Ok(Self {
            folder,
            lease,
            own_holder: Holder::this_process(),
            watch: HeartbeatWatch::default(),
        })
    }

    /// Returns the state of each of the named cells.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn states(&mut self, cells: &[String]) -> Result<Vec<CellState>> {
        let marks = self.marks()?;
        self.states_from(&marks, cells)
    }

    /// Returns the state of each of the named cells by marks that were already read.
    ///
    /// # Errors
    /// If a claim cannot be read.
    pub fn states_from(&mut self, marks: &MarksByCell, cells: &[String]) -> Result<Vec<CellState>> {
        let standing = |cell: &String| {
            let marks = marks.get(cell).copied().unwrap_or_default();
            self.state(cell, marks)
        };
        cells.iter().map(standing).collect()
    }

    /// Reads the marks of all cells from one listing of the folder.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn marks(&self) -> Result<MarksByCell> {
        let mut all = MarksByCell::new();
        let entries = fs::read_dir(&self.folder).map_err(Error::io("read", &self.folder))?;
        for entry in entries {
            let entry = entry.map_err(Error::io("read", &self.folder))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if let Some(cell) = name.strip_suffix(".end.json") {
                all.entry(cell.into()).or_default().ended = true;
                continue;
            }
            let mut parts = name.rsplitn(3, '.');
            let (Some(number), Some(what), Some(cell)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let Ok(number) = number.parse::<u32>() else {
                continue;
            };
            let marks = all.entry(cell.into()).or_default();
            match what {
                "claim" => marks.claimed = marks.claimed.max(number),
                "free" => marks.released = marks.released.max(number),
                "rung" => marks.rung = marks.rung.max(number),
                _ => {}
            }
        }
        Ok(all)
    }

    fn state(&mut self, cell: &str, marks: CellMarks) -> Result<CellState> {
        if marks.ended {
            return Ok(CellState::Ended);
        }
        if marks.claimed == marks.released {
            return Ok(CellState::Open);
        }
        let claim = self.file(cell, "claim", marks.claimed);
        let text = fs::read_to_string(&claim).map_err(Error::io("read", &claim))?;
        // If the file system has no hard links, a claim file may be only partly written, by a process that is alive or
        // by one that died: it is given a lease.
        let holder = serde_json::from_str::<Holder>(&text).unwrap_or_else(|_| Holder::unknown());
        let beat = self.file(cell, "beat", marks.claimed);
        let beat = fs::read_to_string(beat).unwrap_or_default();
        let gone = self
            .watch
            .is_gone(&holder, &self.own_holder, &claim, &beat, self.lease);
        Ok(if gone {
            CellState::Open
        } else {
            CellState::Held(holder)
        })
    }

    /// Returns whether a holder is a process of this machine.
    pub fn is_here(&self, holder: &Holder) -> bool {
        holder.is_local_to(&self.own_holder)
    }

    /// Claims a cell if it is open; returns `None` if it is not, or if another process was faster.
    ///
    /// # Errors
    /// If the ledger cannot be read or written.
    pub fn claim(&mut self, cell: &str) -> Result<Option<Claim>> {
        let marks = self.marks()?.get(cell).copied().unwrap_or_default();
        if self.state(cell, marks)? != CellState::Open {
            return Ok(None);
        }
        let Some(attempt) = marks.claimed.checked_add(1) else {
            let reason = format!("the number of claims of {cell} in the ledger is out of range");
            return Err(Error::run(reason));
        };
        let claim = self.file(cell, "claim", attempt);
        let Some(lock) = create_once(&claim, Holder::this_process())? else {
            return Ok(None);
        };
        // A process that ended the cell between our check and our claim has written its end to disk.
        if self.ending_file(cell).exists() {
            self.write_mark(cell, "free", attempt, "")?;
            return Ok(None);
        }
        let claim = Claim {
            cell: cell.into(),
            attempt,
            heartbeats: 0,
            _lock: lock,
        };
        Ok(Some(claim))
    }

    /// Writes a heartbeat for a claim. Returns false if another process has taken over the cell meanwhile.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn write_heartbeat(&self, claim: &mut Claim) -> Result<bool> {
        claim.heartbeats += 1;
        self.write_mark(
            &claim.cell,
            "beat",
            claim.attempt,
            &claim.heartbeats.to_string(),
        )?;
        Ok(self.holds(claim))
    }

    /// Returns whether no other process has taken over the cell.
    pub fn holds(&self, claim: &Claim) -> bool {
        !self.file(&claim.cell, "claim", claim.attempt + 1).exists()
    }

    /// Gives an unfinished cell back.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn release(&self, claim: Claim) -> Result<()> {
        self.write_mark(&claim.cell, "free", claim.attempt, "")
    }

    /// Records that a cell has reached a rung, and gives it back: its run is paused.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn pause(&self, claim: Claim, rung: usize) -> Result<()> {
        replace_file(&self.folder.join(format!("{}.rung.{rung}", claim.cell)), "")?;
        self.release(claim)
    }

    /// Records how a cell ended.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn end(&self, claim: Claim, ending: &Ending) -> Result<()> {
        self.write_end(&claim.cell, ending)?;
        // If the end is later revoked, the cell is open even while this process lives.
        self.release(claim)
    }

    /// Records how a cell ended that this process need not hold; its run stays as it is.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn write_end(&self, cell: &str, ending: &Ending) -> Result<()> {
        let text = serde_json::to_string(ending)
            .map_err(|e| Error::run(format!("cannot write how a cell ended: {e}")))?;
        replace_file(&self.ending_file(cell), &format!("{text}\n"))
    }

    /// Reopens a cell that had ended.
    ///
    /// # Errors
    /// If the file cannot be deleted.
    pub fn reopen(&self, cell: &str) -> Result<()> {
        files::delete(&self.ending_file(cell))
    }

    fn write_mark(&self, cell: &str, what: &str, attempt: u32, text: &str) -> Result<()> {
        replace_file(&self.file(cell, what, attempt), text)
    }

    fn file(&self, cell: &str, what: &str, attempt: u32) -> PathBuf {
        self.folder.join(format!("{cell}.{what}.{attempt}"))
    }

    fn ending_file(&self, cell: &str) -> PathBuf {
        self.folder.join(format!("{cell}.end.json"))
    }
}

/// Returns the name of a cell in the ledger.
pub fn cell_name(arm_folder: &str, seed: u64) -> String {
    format!("{arm_folder}.seed-{seed}")
}

/// Returns all cells of a sweep by name, in the order of training: all arms with the first seed, then with the second
/// and so on, so that even an interrupted sweep compares all arms.
pub fn cells(sweep: &SweepFolder) -> Vec<(usize, u64, String)> {
    let arms = || sweep.plan.arms.iter().enumerate();
    let seeds = sweep.plan.seeds.iter();
    seeds
        .flat_map(|&seed| arms().map(move |(i, arm)| (i, seed, cell_name(&arm.folder, seed))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_is_half_written_is_held_for_a_lease() {
        let folder = tempfile::tempdir().unwrap();
        let lease = Duration::from_millis(40);
        let mut ledger = Ledger::open(folder.path(), lease).unwrap();
        fs::write(ledger.file("a", "claim", 1), "{\"host\": \"h").unwrap();
        assert!(ledger.claim("a").unwrap().is_none());
        std::thread::sleep(lease);
        assert_eq!(ledger.claim("a").unwrap().unwrap().attempt, 2);
    }

    #[test]
    fn a_claim_is_held_as_long_as_its_process_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let lease = Duration::from_secs(600);
        let mut ledger = Ledger::open(folder.path(), lease).unwrap();
        let mut other = Ledger::open(folder.path(), lease).unwrap();
        let claim = ledger.claim("a").unwrap().unwrap();
        assert!(other.claim("a").unwrap().is_none());
        // As if the process ended: its files are closed, and nothing is given back.
        drop(claim);
        assert_eq!(other.claim("a").unwrap().unwrap().attempt, 2);
    }
}
