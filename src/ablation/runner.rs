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
use crate::ablation::ledger::{Ledger, Standing, cells};
use crate::error::{Error, Result, shell_word};
use crate::report::read::rungs::Decision;
use crate::report::read::sweep::{EndState, Ending, SweepFolder};
use crate::stop::Stop;
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
    Began(&'a str, u32),
    /// A cell has ended.
    Ended(&'a str, &'a Ending),
    /// A cell has reached a rung of the halving.
    Paused(&'a str, Goal),
    /// A rung was decided.
    Decided(&'a Decision),
    /// A cell's process was killed from outside, with the reason.
    Killed(&'a str, &'a str),
    /// A cell was taken over by another process.
    Lost(&'a str),
    /// An open cell cannot be started, because a process that shows no sign of life has locked this file.
    Blocked(&'a str, &'a Path),
    /// No cell is open, but other processes hold this number of cells.
    Waiting(usize),
}

/// Time between two checks of the processes.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two checks of the ledger while others hold all remaining cells.
const LOOK: Duration = Duration::from_secs(1);
/// How long the lock of an open cell may be held before it is reported; a process that saves holds it only briefly.
const SAVING: Duration = Duration::from_secs(5);
/// Number of deaths of a cell's process without a new checkpoint in between after which the cell counts as failed.
const DEATHS: u32 = 3;

struct Runner<'a> {
    sweep: &'a SweepFolder,
    ledger: Ledger,
    options: Options,
    observe: &'a mut dyn FnMut(Event),
    working: Vec<Cell>,
    /// How often each cell's process was killed since its newest checkpoint, and the step of that checkpoint.
    deaths: HashMap<String, (u32, Option<u64>)>,
    /// Open cells whose runs are locked: since when, and whether that was reported.
    blocked: HashMap<String, (Instant, bool)>,
    beaten: Instant,
    looked: Option<Instant>,
    /// The first error of a full disk, with the cell that met it.
    full: Option<String>,
}

/// Works until no cell is open (with `wait`: until all have ended) or until `stop` is raised.
///
/// # Errors
/// If the ledger cannot be read or written, if a process cannot be started, if the disk is full, or if the sweep is
/// interrupted.
pub fn work(
    sweep: &SweepFolder,
    ledger: Ledger,
    options: Options,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<()> {
    let mut runner = Runner {
        sweep,
        ledger,
        options,
        observe,
        working: Vec::new(),
        deaths: HashMap::new(),
        blocked: HashMap::new(),
        beaten: Instant::now(),
        looked: None,
        full: None,
    };
    while !stop.is_raised() && runner.full.is_none() {
        let left = match runner.fill() {
            Err(error) => runner.met(error).map(|()| true)?,
            Ok(left) => left,
        };
        if !left && runner.working.is_empty() {
            return Ok(());
        }
        sleep(PAUSE);
        runner.turn()?;
    }
    runner.stop()
}

impl Runner<'_> {
    /// Takes open cells until all jobs are busy. Returns whether something is left to do or to wait for.
    fn fill(&mut self) -> Result<bool> {
        if self.working.len() >= self.options.jobs {
            return Ok(true);
        }
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return Ok(true);
        }
        let marks = self.ledger.marks()?;
        let mut decided = |decision: &Decision| (self.observe)(Event::Decided(decision));
        let stage = halving::stage(self.sweep, &self.ledger, &marks, &mut decided)?;
        // Read the marks again, since a decision may have ended cells.
        let marks = self.ledger.marks()?;
        let mut all = cells(self.sweep);
        all.retain(|(arm, _, name)| {
            let here = |goal: Goal| marks.get(name).is_some_and(|m| m.at_rung(goal.number));
            stage.arms.contains(arm) && !stage.rung.is_some_and(here)
        });
        let names: Vec<String> = all.iter().map(|(_, _, name)| name.clone()).collect();
        let standings = self.ledger.standings_by(&marks, &names)?;
        // Cells that another process was faster to claim are held by others too.
        let (before, mut taken) = (self.working.len(), 0);
        for ((arm, seed, name), standing) in all.into_iter().zip(&standings) {
            if self.working.len() >= self.options.jobs {
                return Ok(true);
            }
            let ours = self.working.iter().any(|cell| cell.claim.cell == name);
            if ours || *standing != Standing::Open {
                self.blocked.remove(&name);
                continue;
            }
            if self.is_blocked(arm, seed, &name) {
                continue;
            }
            match self.ledger.claim(&name)? {
                Some(claim) => {
                    let cell = Cell::new(self.sweep, (arm, seed), stage.rung, claim);
                    self.working.push(cell);
                    self.start()?;
                }
                None => taken += 1,
            }
        }
        let held = standings.iter().filter(|s| matches!(s, Standing::Held(_)));
        let others = held.count().saturating_sub(before) + taken;
        if self.working.is_empty() && others > 0 && self.options.wait && self.looked.is_none() {
            (self.observe)(Event::Waiting(others));
        }
        self.looked = Some(Instant::now());
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
        if !*said && since.elapsed() > SAVING {
            *said = true;
            (self.observe)(Event::Blocked(name, &run.join(LOCK)));
        }
        true
    }

    /// Starts the processes of claimed cells that have none yet.
    fn start(&mut self) -> Result<()> {
        for cell in self.working.iter_mut().filter(|cell| !cell.is_started()) {
            if cell.start(self.sweep, self.options.threads)? {
                (self.observe)(Event::Began(&cell.claim.cell, cell.claim.attempt));
            }
        }
        Ok(())
    }

    /// Checks every process once, and writes heartbeats when they are due.
    fn turn(&mut self) -> Result<()> {
        self.start().or_else(|error| self.met(error))?;
        self.beat()?;
        for mut cell in std::mem::take(&mut self.working) {
            match cell.poll()? {
                None => self.working.push(cell),
                Some(outcome) => {
                    let settled = self.settle(cell, outcome);
                    settled.or_else(|error| self.met(error))?;
                    self.looked = None;
                }
            }
        }
        Ok(())
    }

    fn beat(&mut self) -> Result<()> {
        if self.beaten.elapsed() < self.options.lease / 6 {
            return Ok(());
        }
        self.beaten = Instant::now();
        for mut cell in std::mem::take(&mut self.working) {
            let is_ours = self.ledger.beat(&mut cell.claim);
            if is_ours.or_else(|error| self.met(error).map(|()| true))? {
                self.working.push(cell);
            } else {
                // This process slept for longer than a lease.
                cell.kill();
                (self.observe)(Event::Lost(&cell.claim.cell));
            }
        }
        Ok(())
    }

    /// Records an error of a full disk, which ends the work and is reported once all processes have ended. Other errors
    /// are returned at once.
    fn met(&mut self, error: Error) -> Result<()> {
        let told = error.to_string();
        if !full_disk::is_named(&told) {
            return Err(error);
        }
        self.full.get_or_insert(told);
        Ok(())
    }

    fn settle(&mut self, cell: Cell, outcome: CellExit) -> Result<()> {
        let name = cell.claim.cell.clone();
        match outcome {
            CellExit::Ended(ending) => self.end(cell, ending)?,
            CellExit::Paused(goal) => {
                self.ledger.pause(cell.claim, goal.number)?;
                (self.observe)(Event::Paused(&name, goal));
            }
            CellExit::Stopped => self.ledger.free(cell.claim)?,
            CellExit::NoRoom(told) => {
                self.full.get_or_insert(format!("{name}: {told}"));
                self.ledger.free(cell.claim)?;
            }
            CellExit::Killed(why) => {
                (self.observe)(Event::Killed(&name, &why));
                let step = checkpoint::steps(&cell.run).last().copied();
                let deaths = self.deaths.entry(name.clone()).or_default();
                *deaths = match deaths.1 == step {
                    true => (deaths.0 + 1, step),
                    false => (1, step),
                };
                if deaths.0 < DEATHS {
                    return self.ledger.free(cell.claim);
                }
                let ending = Ending {
                    state: EndState::Failed,
                    reason: format!("killed {DEATHS} times without getting further: {why}"),
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
            (self.observe)(Event::Lost(&name));
            return Ok(());
        }
        self.ledger.end(cell.claim, &ending)?;
        (self.observe)(Event::Ended(&name, &ending));
        Ok(())
    }

    /// Asks every process to save and end, and gives their cells back.
    fn stop(mut self) -> Result<()> {
        for cell in &mut self.working {
            cell.stop();
        }
        let (unstarted, working): (Vec<Cell>, Vec<Cell>) =
            self.working.drain(..).partition(|cell| !cell.is_started());
        for cell in unstarted {
            let freed = self.ledger.free(cell.claim);
            freed.or_else(|error| self.met(error))?;
        }
        self.working = working;
        while !self.working.is_empty() {
            sleep(PAUSE);
            self.turn()?;
        }
        if let Some(told) = self.full {
            return Err(full_disk::end(self.sweep, &told));
        }
        Err(Error::Stopped(format!(
            "the sweep was interrupted, its cells are saved; go on with: formwork sweep {}",
            shell_word(&self.sweep.path)
        )))
    }
}
