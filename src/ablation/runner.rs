//! The main loop of a sweep: takes open cells, keeps a given number of processes at work, and records how each cell
//! ended.
//!
//! Any number of these loops may work on one folder; they share only the ledger. A cell that fails does not stop the
//! others. A full disk ends all work, since no cell failed by itself. A cell whose process was killed is resumed from
//! its checkpoint, unless it repeatedly makes no progress. If arms are stopped at rungs, the open cells are those of
//! the present rung ([`crate::ablation::halving`]).

use crate::ablation::cell::{Cell, CellExit};
use crate::ablation::full_disk;
use crate::ablation::halving::{self, Goal};
use crate::ablation::ledger::{CellState, Ledger, cells};
use crate::error::{Error, Result, shell_word};
use crate::report::read::rungs::Decision;
use crate::report::read::sweep::{EndState, Ending, SweepFolder};
use crate::stop::StopFlag;
use crate::train::checkpoint;
use crate::train::run_dir::{self, LOCK};
use std::collections::HashMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Options for working on a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of processes that run at a time.
    pub jobs: usize,
    /// Number of threads of each process.
    pub threads: usize,
    /// How long the heartbeat of a holder on another machine may stand still.
    pub lease: Duration,
    /// Whether to wait until cells that others hold have ended, and to take over the cells of processes that die.
    pub wait: bool,
}

/// An event to report to the user who follows a sweep.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A cell's process was started, with the number of the attempt, counted from 1.
    Started(&'a str, u32),
    /// A cell has ended.
    Ended(&'a str, &'a Ending),
    /// A cell has reached a rung of the halving.
    Paused(&'a str, Goal),
    /// A rung was decided.
    Decided(&'a Decision),
    /// A cell's process was killed from outside, with the reason.
    Killed(&'a str, &'a str),
    /// A cell was taken over by another process.
    TakenOver(&'a str),
    /// An open cell cannot be started, because a process that shows no sign of life has locked this file.
    Blocked(&'a str, &'a Path),
    /// No cell is open, but other processes hold this number of cells.
    Waiting(usize),
}

/// Time between two checks of the processes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two checks of the ledger while others hold all remaining cells.
const LEDGER_INTERVAL: Duration = Duration::from_secs(1);
/// How long the lock of an open cell may be held before it is reported; a process that saves holds it only briefly.
const SAVE_GRACE: Duration = Duration::from_secs(5);
/// Number of deaths of a cell's process without a new checkpoint in between after which the cell counts as failed.
const MAX_DEATHS: u32 = 3;

struct Runner<'a> {
    sweep: &'a SweepFolder,
    ledger: Ledger,
    options: Options,
    observe: &'a mut dyn FnMut(Event),
    active_cells: Vec<Cell>,
    /// How often each cell's process was killed since its newest checkpoint, and the step of that checkpoint.
    deaths: HashMap<String, (u32, Option<u64>)>,
    /// Open cells whose runs are locked: since when, and whether that was reported.
    blocked: HashMap<String, (Instant, bool)>,
    last_heartbeat: Instant,
    last_ledger_check: Option<Instant>,
    /// The first error of a full disk, with the cell that met it.
    full_disk_error: Option<String>,
}

/// Works until no cell is open (with `wait`: until all have ended) or until `stop` is raised.
///
/// # Errors
/// If the ledger cannot be read or written, if a process cannot be started, if the disk is full, or if the sweep is
/// interrupted.
pub fn train_cells(
    sweep: &SweepFolder,
    ledger: Ledger,
    options: Options,
    stop: &StopFlag,
    observe: &mut dyn FnMut(Event),
) -> Result<()> {
    let mut runner = Runner {
        sweep,
        ledger,
        options,
        observe,
        active_cells: Vec::new(),
        deaths: HashMap::new(),
        blocked: HashMap::new(),
        last_heartbeat: Instant::now(),
        last_ledger_check: None,
        full_disk_error: None,
    };
    while !stop.is_raised() && runner.full_disk_error.is_none() {
        let left = match runner.claim_cells() {
            Err(error) => runner.record_disk_error(error).map(|()| true)?,
            Ok(left) => left,
        };
        if !left && runner.active_cells.is_empty() {
            return Ok(());
        }
        sleep(POLL_INTERVAL);
        runner.poll_cells()?;
    }
    runner.stop()
}

impl Runner<'_> {
    /// Takes open cells until all jobs are busy. Returns whether something is left to do or to wait for.
    fn claim_cells(&mut self) -> Result<bool> {
        if self.active_cells.len() >= self.options.jobs {
            return Ok(true);
        }
        if self
            .last_ledger_check
            .is_some_and(|at| at.elapsed() < LEDGER_INTERVAL)
        {
            return Ok(true);
        }
        let marks = self.ledger.marks()?;
        let mut decided = |decision: &Decision| (self.observe)(Event::Decided(decision));
        let stage = halving::next_stage(self.sweep, &self.ledger, &marks, &mut decided)?;
        // Read the marks again, since a decision may have ended cells.
        let marks = self.ledger.marks()?;
        let mut all = cells(self.sweep);
        all.retain(|(arm, _, name)| {
            let here = |goal: Goal| {
                marks
                    .get(name)
                    .is_some_and(|m| m.has_reached_rung(goal.number))
            };
            stage.arms.contains(arm) && !stage.rung.is_some_and(here)
        });
        let names: Vec<String> = all.iter().map(|(_, _, name)| name.clone()).collect();
        let standings = self.ledger.states_from(&marks, &names)?;
        // Cells that another process was faster to claim are held by others too.
        let (before, mut taken) = (self.active_cells.len(), 0);
        for ((arm, seed, name), standing) in all.into_iter().zip(&standings) {
            if self.active_cells.len() >= self.options.jobs {
                return Ok(true);
            }
            let ours = self.active_cells.iter().any(|cell| cell.claim.cell == name);
            if ours || *standing != CellState::Open {
                self.blocked.remove(&name);
                continue;
            }
            if self.is_blocked(arm, seed, &name) {
                continue;
            }
            match self.ledger.claim(&name)? {
                Some(claim) => {
                    let cell = Cell::new(self.sweep, (arm, seed), stage.rung, claim);
                    self.active_cells.push(cell);
                    self.start()?;
                }
                None => taken += 1,
            }
        }
        let held = standings.iter().filter(|s| matches!(s, CellState::Held(_)));
        let others = held.count().saturating_sub(before) + taken;
        if self.active_cells.is_empty()
            && others > 0
            && self.options.wait
            && self.last_ledger_check.is_none()
        {
            (self.observe)(Event::Waiting(others));
        }
        self.last_ledger_check = Some(Instant::now());
        let saving = self.blocked.values().any(|(_, said)| !said);
        Ok(saving || self.options.wait && others + self.blocked.len() > 0)
    }

    /// Returns whether a cell's run is still locked, though no process holds the cell. The lock may be that of a dead
    /// machine: NFS keeps it for a while, NFSv3 until that machine is back. If the cell were claimed, it would occupy a
    /// job without training.
    fn is_blocked(&mut self, arm: usize, seed: u64, name: &str) -> bool {
        let run = self.sweep.run(&self.sweep.plan.arms[arm], seed);
        if !run_dir::is_busy(&run) {
            self.blocked.remove(name);
            return false;
        }
        let now = (Instant::now(), false);
        let (since, said) = self.blocked.entry(name.to_owned()).or_insert(now);
        if !*said && since.elapsed() > SAVE_GRACE {
            *said = true;
            (self.observe)(Event::Blocked(name, &run.join(LOCK)));
        }
        true
    }

    /// Starts the processes of claimed cells that have none yet.
    fn start(&mut self) -> Result<()> {
        for cell in self
            .active_cells
            .iter_mut()
            .filter(|cell| !cell.is_started())
        {
            if cell.start(self.sweep, self.options.threads)? {
                (self.observe)(Event::Started(&cell.claim.cell, cell.claim.attempt));
            }
        }
        Ok(())
    }

    /// Checks every process once, and writes heartbeats when they are due.
    fn poll_cells(&mut self) -> Result<()> {
        self.start()
            .or_else(|error| self.record_disk_error(error))?;
        self.beat()?;
        for mut cell in std::mem::take(&mut self.active_cells) {
            match cell.poll()? {
                None => self.active_cells.push(cell),
                Some(outcome) => {
                    let settled = self.handle_exit(cell, outcome);
                    settled.or_else(|error| self.record_disk_error(error))?;
                    self.last_ledger_check = None;
                }
            }
        }
        Ok(())
    }

    fn beat(&mut self) -> Result<()> {
        if self.last_heartbeat.elapsed() < self.options.lease / 6 {
            return Ok(());
        }
        self.last_heartbeat = Instant::now();
        for mut cell in std::mem::take(&mut self.active_cells) {
            let is_ours = self.ledger.write_heartbeat(&mut cell.claim);
            if is_ours.or_else(|error| self.record_disk_error(error).map(|()| true))? {
                self.active_cells.push(cell);
            } else {
                // This process slept for longer than a lease.
                cell.kill();
                (self.observe)(Event::TakenOver(&cell.claim.cell));
            }
        }
        Ok(())
    }

    /// Records an error of a full disk, which ends the work and is reported once all processes have ended. Other errors
    /// are returned at once.
    fn record_disk_error(&mut self, error: Error) -> Result<()> {
        let told = error.to_string();
        if !full_disk::mentions_full_disk(&told) {
            return Err(error);
        }
        self.full_disk_error.get_or_insert(told);
        Ok(())
    }

    fn handle_exit(&mut self, cell: Cell, outcome: CellExit) -> Result<()> {
        let name = cell.claim.cell.clone();
        match outcome {
            CellExit::Ended(ending) => self.end(cell, ending)?,
            CellExit::Paused(goal) => {
                self.ledger.pause(cell.claim, goal.number)?;
                (self.observe)(Event::Paused(&name, goal));
            }
            CellExit::Stopped => self.ledger.release(cell.claim)?,
            CellExit::DiskFull(told) => {
                self.full_disk_error
                    .get_or_insert(format!("{name}: {told}"));
                self.ledger.release(cell.claim)?;
            }
            CellExit::Killed(why) => {
                (self.observe)(Event::Killed(&name, &why));
                let step = checkpoint::steps(&cell.run).last().copied();
                let deaths = self.deaths.entry(name.clone()).or_default();
                *deaths = match deaths.1 == step {
                    true => (deaths.0 + 1, step),
                    false => (1, step),
                };
                if deaths.0 < MAX_DEATHS {
                    return self.ledger.release(cell.claim);
                }
                let ending = Ending {
                    state: EndState::Failed,
                    reason: format!("killed {MAX_DEATHS} times without progress: {why}"),
                    attempts: cell.claim.attempt,
                };
                self.end(cell, ending)?;
            }
        }
        Ok(())
    }

    /// Records how a cell ended, unless another process has taken it over and may still train it.
    fn end(&mut self, cell: Cell, ending: Ending) -> Result<()> {
        let name = cell.claim.cell.clone();
        if ending.state != EndState::Done && !self.ledger.holds(&cell.claim) {
            (self.observe)(Event::TakenOver(&name));
            return Ok(());
        }
        self.ledger.end(cell.claim, &ending)?;
        (self.observe)(Event::Ended(&name, &ending));
        Ok(())
    }

    /// Asks every process to save and end, and gives their cells back.
    fn stop(mut self) -> Result<()> {
        for cell in &mut self.active_cells {
            cell.stop();
        }
        let (unstarted, working): (Vec<Cell>, Vec<Cell>) = self
            .active_cells
            .drain(..)
            .partition(|cell| !cell.is_started());
        for cell in unstarted {
            let freed = self.ledger.release(cell.claim);
            freed.or_else(|error| self.record_disk_error(error))?;
        }
        self.active_cells = working;
        while !self.active_cells.is_empty() {
            sleep(POLL_INTERVAL);
            self.poll_cells()?;
        }
        if let Some(told) = self.full_disk_error {
            return Err(full_disk::full_disk_error(self.sweep, &told));
        }
        Err(Error::Stopped(format!(
            "the sweep was interrupted and its cells are saved; continue with: formwork sweep {}",
            shell_word(&self.sweep.path)
        )))
    }
}
